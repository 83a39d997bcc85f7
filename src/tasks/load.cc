#include "tasks/load.h"

#include <fmt/format.h>

#include "checkpoints/kept.h"
#include "fovea/error.h"
#include "fovea/io.h"
#include "io/metadata.h"
#include "tasks/room.h"

namespace fovea::tasks {

nn::Weights kept_weights(const RunFolder& folder, const nn::Weights& sketch) {
  using checkpoints::KeptAs;
  const KeptAs kept = checkpoints::default_kept();
  if (kept != KeptAs::stored && kept != KeptAs::float32) {
    throw Error("open", fmt::format("{} was trained here, and its weights stay float32: --weights "
                                    "{} is for models that others trained",
                                    folder.path().string(), name_of(kept)));
  }
  const std::filesystem::path file = folder / "model.safetensors";
  const Tensors there = sketch_safetensors(file);
  try {
    nn::expect_tensors(sketch.all(), there);
  } catch (const Error& error) {
    throw Error("open", fmt::format("{}: {}", file.string(), error.message()));
  }
  int64_t bytes = 0;
  for (const auto& [name, t] : sketch.all()) bytes += t.numel() * size_of(t.dtype());
  check_room("open", "the model in " + folder.path().string(), bytes, "what else runs here");
  return nn::Weights::given(load_safetensors(file));
}

}  // namespace fovea::tasks
