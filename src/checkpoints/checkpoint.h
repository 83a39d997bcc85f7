#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/architecture.h"
#include "checkpoints/generation.h"
#include "checkpoints/kept.h"
#include "fovea/transformer.h"

// A model that somebody else trained, opened from its folder (folder.h). Its weights need no
// gradients: nobody writes to it, and many may ask it at once.
namespace fovea::checkpoints {

// What is known of it before any weight is read.
struct CheckpointInfo {
  std::filesystem::path folder;
  std::string type, title;  // "gpt2", "GPT-2"
  Purpose purpose = Purpose::writes;
  models::TransformerConfig network;
  int64_t longest = 0;                    // tokens that it was made for; 0: not known
  int64_t weights = 0;                    // numbers, those that tensors share counted once
  std::map<std::string, int64_t> stored;  // numbers by type in the files
  int64_t file_bytes = 0, memory_bytes = 0;
  KeptAs kept = KeptAs::stored;
  double lost = 0;  // ‖w − ŵ‖/‖w‖ of what is kept as; known of an opened model
  std::vector<std::string> classes;  // where it tells some
};
CheckpointInfo about(const std::filesystem::path&, KeptAs = default_kept());

// out(norm(curve(dense(x)))), what is undefined being left out.
struct Head {
  HeadPlan plan;
  nn::Linear dense, out, second;
  nn::Norm norm;
};

// A picture [R,C,Y,X] as rows: patches through a linear layer, learned rows before them.
struct PictureRows {
  PicturePlan plan;
  nn::Linear patches;                               // [W, C·p·p]
  Tensor tokens;                                    // [n,W]
  std::vector<float> mean, deviation;               // by channel, of values from 0 to 1
  Tensor operator()(const Tensor& pictures) const;  // → [R, n + places, W]
};

struct Checkpoint {
  CheckpointInfo about;
  models::Transformer model;
  std::optional<Head> head;
  std::optional<PictureRows> picture;
  Generation generation;
};
// Shapes are checked against the headers, and memory is foreseen, before any data are read.
Checkpoint open(const std::filesystem::path&, KeptAs = default_kept());

// Throws where weights are no plain numbers, or the model is a program beside them.
void refuse_odd(const Config&, const std::filesystem::path& folder);
std::vector<std::string> classes_in(const Config&, int64_t count);  // by id2label, or LABEL_0 …

// What an encoder's rows [R,L,W] say: of every row [R,L,V] where it fills in tokens, else of the
// whole [R,classes].
Tensor said(const Head&, Purpose, const Tensor& rows);
// Ids i64 [B,L] → rows, and on to what is said of them.
Tensor said_of(const Checkpoint&, const Tensor& ids, const Tensor& lengths = {});

}  // namespace fovea::checkpoints
