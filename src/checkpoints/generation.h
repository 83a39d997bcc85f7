#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/config.h"

namespace fovea::checkpoints {

// How a model writes when nobody says otherwise: generation_config.json; keys that it lacks come
// from config.json, as they did before that file was.
struct Generation {
  bool sample = false;
  double temperature = 1.0, top_p = 1.0, repetition_penalty = 1.0;
  int64_t top_k = 0;  // 0: all
  int64_t beams = 1;
  double length_penalty = 1.0;
  bool early_stopping = false;
  int64_t longest = 0;               // tokens, the prompt included; 0: not said
  int64_t most_new = 0;              // tokens after the prompt; 0: not said
  std::vector<int64_t> ends;         // tokens that end a text
  std::vector<int64_t> never;        // tokens that are not written
  std::optional<int64_t> begin;      // where there is no prompt
  std::optional<int64_t> first;      // what a decoder over a source starts with
  std::vector<std::string> unknown;  // keys that ask for what is not done here
};
Generation generation_in(const std::filesystem::path& folder, const Config& model);

}  // namespace fovea::checkpoints
