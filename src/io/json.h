#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
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

// Throws fovea::Error, which calls the text `name` ("FILE", "the request"), where it is not JSON in
// UTF-8 or beyond the limits.
FOVEA_API nlohmann::ordered_json parse_json(std::string_view text, const std::string& name,
                                            const JsonLimits& = {});

// A number that 64 bits hold, and without a fraction; throws fovea::Error where it is none.
FOVEA_API int64_t whole_number(const nlohmann::ordered_json&);

// Files that are whole or not there.
nlohmann::ordered_json read_json(const std::filesystem::path&, const JsonLimits& = {});
void write_json(const std::filesystem::path&, const nlohmann::ordered_json&);

}  // namespace fovea
