#include "tasks/json_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fovea/error.h"
#include "io/json.h"
#include "io/plain_file.h"

namespace fovea::tasks {

std::vector<nlohmann::ordered_json> json_lines(const std::filesystem::path& file) {
  constexpr uint64_t kMost = uint64_t{1} << 28;
  std::vector<nlohmann::ordered_json> lines;
  try {
    const std::string text = read_plain_file(file, kMost);
    for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      lines.push_back(parse_json(std::string_view(text).substr(at, end - at), file.string()));
    }
  } catch (const Unreadable&) {
  } catch (const Error&) {
  }
  return lines;
}

}  // namespace fovea::tasks
