#include "tasks/deal.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "fovea/runtime.h"
#include "tensor/bytes.h"

namespace fovea::tasks {
namespace {

std::string hash_of_model(const Run& run) {
  size_t hash = 0;
  for (const auto& [name, tensor] : run.tensors()) {
    const Tensor here = tensor.contiguous().to(Device::cpu);
    const auto bytes = static_cast<size_t>(here.numel() * size_of(here.dtype()));
    const std::string_view view(reinterpret_cast<const char*>(bytes_of(here)), bytes);
    hash = hash * 31 + std::hash<std::string_view>()(view);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

void to_json(nlohmann::json& j, const Prediction& p) { j = {p.text, p.score, p.ended}; }

void from_json(const nlohmann::json& j, Prediction& p) {
  p = {.text = j.at(0), .score = j.at(1), .ended = j.at(2), .pictures = {}};
}

void expect_same_program(team::Team& team, std::map<std::string, std::string> asked) {
  if (team.size() == 1) return;
  asked.emplace("version", version());
  asked.emplace("instruction set", isa());
  team::expect_alike(team, asked);
}

void expect_same_run(team::Team& team, const Run& run, const Judged& what, Settings& asked) {
  if (team.size() == 1) return;
  std::map<std::string, std::string> facts;
  team::together(team, [&] {
    facts = {{"what they were asked", to_json(asked).dump()},
             {"what is judged", what.file.empty() ? name_of(what.set) : what.file},
             {"their models (hash)", hash_of_model(run)}};
    if (what.file.empty()) facts["their data (fingerprint)"] = run.fingerprint();
  });
  expect_same_program(team, std::move(facts));
}

}  // namespace fovea::tasks
