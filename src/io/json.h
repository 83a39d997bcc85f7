#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "fovea/api.h"

// JSON that comes from outside, in a file or a request: read here alone, so that all of it is
// checked.
namespace fovea {

struct JsonLimits {
  uint64_t bytes = uint64_t{64} << 20;
  int depth = 100;      // lists and objects within each other: what walks a tree calls itself
  size_t names = 1000;  // of one object: they are kept in their order and looked for one by one
};

// A list or an object of many entries, told one by one as they are read and kept nowhere: a
// vocabulary has a million names. It counts as empty in what is returned, and its names have no
// bound.
struct JsonMany {
  std::string path;  // the names that lead to it: "model.vocab"; all there is: ""
  std::function<void(std::string&& name, nlohmann::ordered_json&& value)> entry;  // lists: name ""
};

// Throws fovea::Error, which calls the text `name` ("FILE", "the request"), where it is not JSON in
// UTF-8 or beyond the limits.
FOVEA_API nlohmann::ordered_json parse_json(std::string_view text, const std::string& name,
                                            const JsonLimits& = {}, std::span<const JsonMany> = {});

// A number that 64 bits hold, and without a fraction; throws fovea::Error where it is none.
FOVEA_API int64_t whole_number(const nlohmann::ordered_json&);

// Files that are whole or not there.
nlohmann::ordered_json read_json(const std::filesystem::path&, const JsonLimits& = {},
                                 std::span<const JsonMany> = {});
void write_json(const std::filesystem::path&, const nlohmann::ordered_json&);

}  // namespace fovea
