#include "explorer/upload.h"

#include <unistd.h>

#include <cctype>
#include <fstream>

#include "io/base64.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

// The name for people, without any way out of its folder.
std::string safe_name(const std::string& name) {
  std::string safe;
  for (const char c : fs::path(name).filename().string()) {
    safe += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  }
  return safe.empty() || safe[0] == '.' ? "file" : safe;
}

}  // namespace

Asked::Asked(const Json& asked) : input_(asked.value("input", "")) {
  if (!asked.contains("file")) return;
  const std::string bytes = from_base64(asked["file"].get<std::string>());
  name_ = safe_name(asked.value("name", "file"));
  std::string path = (fs::temp_directory_path() / "fovea-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw Error("predict", "no folder for the file");
  folder_ = path;
  input_ = (folder_ / name_).string();
  std::ofstream file(input_, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (file) return;
  clear();
  throw Error("predict", "the file cannot be kept for a moment: is the disk full?");
}

Asked::~Asked() { clear(); }

void Asked::clear() const {
  std::error_code none;
  if (!folder_.empty()) fs::remove_all(folder_, none);
}

Error Asked::renamed(const Error& e) const {
  std::string what(e.message());
  for (size_t at = 0; !folder_.empty() && (at = what.find(input_, at)) != what.npos;) {
    what.replace(at, input_.size(), name_);
    at += name_.size();
  }
  return {e.call(), what};
}

}  // namespace fovea::explorer
