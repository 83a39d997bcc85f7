#include "tasks/given_back.h"

#include <fmt/format.h>
#include <unistd.h>

#include "fovea/error.h"
#include "fovea/io.h"
#include "io/json.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

// Gone again, unless it became something else.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!fs::create_directory(path_, error)) {
      throw Error("export", fmt::format("{}: {}", path_.string(),
                                        error ? error.message() : "it is there already"));
    }
  }
  ~Temporary() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

GivenBack given_back(const checkpoints::Origin& origin, const Tensors& ours) {
  GivenBack g{.title = origin.title(),
              .config = origin.config().json(),
              .tensors = origin.theirs(ours),
              .files = origin.files()};
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (g.config.contains(key)) g.config[key] = "float32";
  }
  if (!g.config.contains("torch_dtype")) g.config["dtype"] = "float32";
  return g;
}

void write_folder(const GivenBack& g, const fs::path& folder) {
  const fs::path whole = folder.has_filename() ? folder : folder.parent_path();
  const Temporary made(whole.parent_path() /
                       fmt::format(".{}.{}.tmp", whole.filename().string(), ::getpid()));
  std::error_code error;
  for (const fs::path& file : g.files) {
    fs::copy_file(file, made.path() / file.filename(), error);
    if (error) throw Error("export", fmt::format("{}: {}", file.string(), error.message()));
  }
  for (const GivenBack::MadeFile& one : g.made) write_json(made.path() / one.name, one.json);
  save_safetensors(made.path() / "model.safetensors", g.tensors, {{"format", "pt"}});
  write_json(made.path() / "config.json", g.config);
  fs::rename(made.path(), whole, error);  // over an empty folder at most
  if (error) throw Error("export", fmt::format("{}: {}", whole.string(), error.message()));
}

}  // namespace fovea::tasks
