#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "fovea/io.h"
#include "team/team.h"

namespace fovea::train {

// A tensor that is put together when its turn comes to be written.
struct Streamed {
  Tensor like;  // its shape and type
  // By all ranks of a team; the first gets it.
  std::function<Tensor()> fetch;
};
using StreamedTensors = std::map<std::string, Streamed>;

StreamedTensors as_they_are(const Tensors&);

// By all ranks, which fetch the same tensors in the same order; the first writes each before the
// next is fetched. Where it cannot, all throw.
void save_streamed(team::Team&, const std::filesystem::path&, const StreamedTensors&,
                   const Metadata&);

}  // namespace fovea::train
