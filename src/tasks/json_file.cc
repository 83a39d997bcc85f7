#include "tasks/json_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fovea/error.h"
#include "io/atomic_file.h"

namespace fovea::tasks {
using Json = nlohmann::ordered_json;

void write_json(const std::filesystem::path& path, const Json& value) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

Json read_json(const std::filesystem::path& path, int64_t largest) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw Error("read_json", fmt::format("{}: {}", path.string(), error.message()));
  if (static_cast<int64_t>(bytes) > largest)
    throw Error("read_json", path.string() + " is too large");
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw Error("read_json", path.string() + " cannot be read");
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    if (depth > 100) throw Error("read_json", "nested too deeply");
    return true;
  };
  try {
    return Json::parse(text.str(), shallow);
  } catch (const Json::exception& e) {
    throw Error("read_json", fmt::format("{} is not JSON: {}", path.string(), e.what()));
  }
}

}  // namespace fovea::tasks
