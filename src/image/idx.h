#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "image/image.h"
#include "io/gzip.h"

// idx files, as MNIST comes in: two zero bytes, the type, the number of dimensions, each dimension
// as 32 bits (the highest byte first), then the values. Here they are bytes, type 8. Gzip too.
namespace fovea::image {

inline constexpr std::int64_t kMostIdxBytes = std::int64_t{1} << 31;  // values of one file

struct Idx {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};
// A wrong beginning, sizes that are too large or values that are fewer or more throw. No memory is
// taken for values that have not come.
Idx parse_idx(const std::string& name, const ReadBytes&);
Idx read_idx(const std::filesystem::path&);

bool is_idx(const std::filesystem::path&);  // by its first bytes

// [n,y,x] → n images; one of another rank throws.
std::vector<Image> images_of(const std::string& name, const Idx&);
// Images with the classes 0 … 9, or as many more as the labels [n] ask for.
LabelledImages read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);

}  // namespace fovea::image
