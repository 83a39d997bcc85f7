#include "explorer/asked.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>

#include "fovea/error.h"
#include "io/base64.h"

namespace fovea::explorer {
namespace {

tasks::Input picture_in(const Json& asked) {
  const std::string name = plain_name(asked.value("name", "file"));
  return tasks::GivenImage{
      image::decoded(from_base64(asked.at("file").get<std::string>()), name, kPhotos), name};
}

}  // namespace

std::string plain_name(const std::string& name) {
  constexpr size_t kLongest = 80;
  std::string plain;
  for (const char c : std::filesystem::path(name).filename().string().substr(0, kLongest)) {
    plain += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  }
  return plain.empty() || plain[0] == '.' ? "file" : plain;
}

tasks::Input asked_about(const tasks::Task& task, const Json& asked) {
  if (task.takes == tasks::Takes::pictures && asked.contains("file")) return picture_in(asked);
  const std::string input = asked.value("input", "");
  if (input.size() > kMostText) {
    throw Error("request", fmt::format("the input has {} bytes, at most {} are read here; "
                                       "`fovea predict` reads longer ones",
                                       input.size(), kMostText));
  }
  if (task.takes == tasks::Takes::text) {
    if (asked.contains("file")) throw Error("request", "this run reads text, found a file");
    return tasks::Text{input};
  }
  if (const auto own = own_from(task, input)) return *own;
  throw Error("request", fmt::format("expected one of the run's own images, such as {}:0, or the "
                                     "file of an image, chosen or dropped",
                                     task.drawn.empty() ? "test" : task.drawn));
}

void take_settings(const Json& asked, tasks::Settings& settings) {
  tasks::from_json(asked, settings, "settings", tasks::Files::refused);
}

}  // namespace fovea::explorer
