#include "train/checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/random.h"
#include "io/json.h"
#include "io/metadata.h"

// state.safetensors: tensors weights/…, buffers/…, optimizer/… and average/…; everything else as
// metadata, the numbers as decimal text that reads back exactly.
namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "format";
constexpr const char* kVersion = "fovea-state-1";
constexpr const char* kSeen = "seen";
constexpr const char* kBatches = "batches";
constexpr const char* kLengths = "lengths in a batch";

// ---- The run's state as metadata ---------------------------------------------------------------

template <class State, class F>
void for_numbers(State& s, const F& f) {
  f("step", s.step);
  f("epoch", s.epoch);
  f("position", s.position);
  f("validations", s.validations);
  f("validated_step", s.validated_step);
  f("stale", s.stale);
  f("reductions", s.reductions);
  f("best_step", s.best_step);
  f("best_score", s.best_score);
  f("loss_total", s.loss_total);
  f("loss_count", s.loss_count);
  f("log_bytes", s.log_bytes);
  f("seconds", s.seconds);
}

template <class T>
std::string digits_of(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

template <class T>
void parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) throw Error("train", "'" + text + "' is no number");
}

}  // namespace

std::string text_of(const Scores& scores) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, score] : scores) list.push_back({name, digits_of(score)});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Scores parse_scores(const std::string& text) {
  Scores scores;
  for (const auto& item : parse_json(text, "the best scores")) {
    scores.emplace_back(item.at(0).get<std::string>(), 0.0);
    parse(item.at(1).get<std::string>(), scores.back().second);
  }
  return scores;
}

namespace {

Metadata metadata_of(const RunState& state) {
  Metadata metadata{
      {kFormat, kVersion}, {"best", text_of(state.best)}, {kSeen, digits_of(state.seen)}};
  for_numbers(state, [&](const char* name, auto value) { metadata[name] = digits_of(value); });
  return metadata;
}

Metadata metadata_of(const StreamedCheckpoint& saved) {
  Metadata metadata = metadata_of(saved.state);
  for (const auto& [name, text] : saved.run) metadata["run." + name] = text;
  return metadata;
}

// Counts are never below what a run begins with, nor so large that sums with them overflow.
template <class T>
void expect_count(const char* name, T value, T least) {
  constexpr double kMost = 1e12;
  if (value >= least && static_cast<double>(value) <= kMost) return;
  throw Error("train", fmt::format("{} is {}", name, value));
}

RunState state_of(const Metadata& metadata) {
  RunState state;
  for_numbers(state, [&]<class T>(const char* name, T& value) {
    const T least = value;
    parse(metadata.at(name), value);
    if constexpr (std::is_integral_v<T>) expect_count(name, value, least);
  });
  state.best = parse_scores(metadata.at("best"));
  state.seen = std::numeric_limits<double>::quiet_NaN();
  if (const auto seen = metadata.find(kSeen); seen != metadata.end()) {
    parse(seen->second, state.seen);
  }
  return state;
}

}  // namespace

std::string text_of(const RunState& state) { return nlohmann::json(metadata_of(state)).dump(); }

RunState parse_state(const std::string& text) {
  return state_of(parse_json(text, "a state").get<Metadata>());
}

namespace {

// ---- The same run? -----------------------------------------------------------------------------

void expect_same_run(const fs::path& path, const Metadata& found, const Metadata& run) {
  for (const auto& [name, text] : run) {
    const auto at = found.find("run." + name);
    // States of former versions.
    const char* const unsaid = name == kBatches ? "1" : name == kLengths ? "alike" : "none";
    const std::string before = at == found.end() ? unsaid : at->second;
    if (before == text) continue;
    throw Error("train",
                fmt::format("{} is of a run with {} {}, this one has {}; give it a folder of its "
                            "own, or the former settings to go on",
                            path.string(), name, before, text));
  }
}

RunState state_in(const fs::path& path, const Metadata& metadata, const Metadata& run) {
  const auto format = metadata.find(kFormat);
  if (format == metadata.end() || format->second != kVersion) {
    throw Error("train", path.string() + " is no state of a run, or of another version");
  }
  expect_same_run(path, metadata, run);
  try {
    return state_of(metadata);
  } catch (const std::exception& error) {
    throw Error("train", fmt::format("{} is damaged: {}", path.string(), error.what()));
  }
}

bool is_there(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (error) throw Error("train", fmt::format("{}: {}", path.string(), error.message()));
  return there;
}

struct PartOfState {
  const char* prefix;
  Tensors Checkpoint::*loaded;
  StreamedTensors StreamedCheckpoint::*saved;
};
const PartOfState kParts[] = {
    {"weights/", &Checkpoint::weights, &StreamedCheckpoint::weights},
    {"buffers/", &Checkpoint::buffers, &StreamedCheckpoint::buffers},
    {"optimizer/", &Checkpoint::optimizer, &StreamedCheckpoint::optimizer},
    {"average/", &Checkpoint::average, &StreamedCheckpoint::average},
};

}  // namespace

Metadata identity_of(const Learner& learner, const TrainConfig& config) {
  uint64_t hash = 0;
  for (const int64_t length : learner.lengths) hash = mix64(hash ^ static_cast<uint64_t>(length));
  return {{"examples", std::to_string(learner.lengths.size())},
          {"lengths (hash)", fmt::format("{:016x}", hash)},
          {"seed", std::to_string(config.seed)},
          {"batch_tokens", std::to_string(config.batch_tokens)},
          {"batch_examples", std::to_string(config.batch_examples)},
          {kBatches, std::to_string(config.batches)},
          {kLengths, config.like_lengths ? "alike" : "mixed"},
          {"method", name_of(config.optimizer.method)},
          {"moving average", config.average > 0 ? "yes" : "no"}};
}

void save_state(team::Team& team, const fs::path& path, const StreamedCheckpoint& saved) {
  StreamedTensors tensors;
  for (const PartOfState& part : kParts) {
    for (const auto& [name, tensor] : saved.*part.saved) {
      tensors.emplace(part.prefix + name, tensor);
    }
  }
  save_streamed(team, path, tensors, metadata_of(saved));
}

std::optional<RunState> read_state(const fs::path& path, const Metadata& run) {
  if (!is_there(path)) return std::nullopt;
  return state_in(path, read_metadata(path), run);
}

std::optional<Checkpoint> load_state(const fs::path& path, const Metadata& run) {
  if (!is_there(path)) return std::nullopt;
  TensorFile file = read_safetensors(path);
  Checkpoint checkpoint;
  checkpoint.run = run;
  checkpoint.state = state_in(path, file.metadata, run);
  for (auto& [name, tensor] : file.tensors) {
    for (const PartOfState& part : kParts) {
      const std::string start = part.prefix;
      if (name.starts_with(start)) {
        (checkpoint.*part.loaded).emplace(name.substr(start.size()), std::move(tensor));
        break;
      }
    }
  }
  return checkpoint;
}

void save_best(team::Team& team, const fs::path& path, const StreamedTensors& weights,
               int64_t step) {
  save_streamed(team, path, weights, {{"step", std::to_string(step)}});
}

std::optional<Tensors> load_best(const fs::path& path, int64_t step) {
  if (!is_there(path)) return std::nullopt;
  TensorFile file = read_safetensors(path);
  if (file.metadata["step"] != std::to_string(step)) return std::nullopt;
  return std::move(file.tensors);
}

void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours =
        name.starts_with(".state.safetensors.") || name.starts_with(".model.safetensors.");
    if (ours && name.ends_with(".tmp")) fs::remove(entry.path(), ignored);
  }
}

}  // namespace fovea::train
