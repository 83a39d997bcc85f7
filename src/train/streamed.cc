#include "train/streamed.h"

#include <exception>
#include <optional>

#include "io/tensor_writer.h"

namespace fovea::train {

StreamedTensors as_they_are(const Tensors& tensors) {
  StreamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    all.emplace(name, Streamed{tensor, [t = tensor] { return t; }});
  }
  return all;
}

void save_streamed(team::Team& team, const std::filesystem::path& path,
                   const StreamedTensors& tensors, const Metadata& metadata) {
  Tensors like;
  for (const auto& [name, one] : tensors) like.emplace(name, one.like);
  std::optional<TensorWriter> file;
  std::exception_ptr failed;  // the others send on: all learn of it at the end
  const auto first_does = [&](const auto& work) {
    if (!team.is_first() || failed) return;
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  };
  first_does([&] { file.emplace(path, like, metadata); });
  for (const std::string& name : TensorWriter::order(like)) {
    const Tensor whole = tensors.at(name).fetch();
    first_does([&] { file->write(whole); });
  }
  first_does([&] { file->commit(); });
  team::together(team, [&] {
    if (failed) std::rethrow_exception(failed);
  });
}

}  // namespace fovea::train
