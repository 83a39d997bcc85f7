// Times attend() on the cases of tests/attention/cases.h and on every score there is.
//   attention --list      the cases, as JSON
//   attention             a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"case": "dot/H8_L128_D64", "pass": "forward", "seconds": 0.2, "reps": 3,
//      "inputs": "in.safetensors", "outputs": "out.safetensors"}
//         at least `reps` calls and `seconds` of them, without the file of inputs on random ones
//         "type": "bf16": of inputs in 16 bits, which gradients reach by way of float32
//     {"machine": {"bytes": 4194304}}    what it can do at best: FLOP/s, bytes/s read
// bench/attention.py drives it beside its peers.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../tests/attention/cases.h"
#include "../tests/attention/generate.h"
#include "fovea/attention.h"
#include "fovea/io.h"
#include "fovea/runtime.h"
#include "machine.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::Tensors;
using fovea::cases::AttentionCase;
using fovea::cases::Backward;
using Json = nlohmann::json;

// Self-attention of L rows.
AttentionCase listed_case(std::string_view name, std::string_view group, int64_t B, int64_t H,
                          int64_t L) {
  return {.name = name,
          .group = group,
          .B = B,
          .H = H,
          .Hk = H,
          .Lq = L,
          .Lk = L,
          .D = 64,
          .Dv = 64,
          .A = 64};
}

// Every score and every soft weighting of the library at one small shape, so that a new one is
// timed as soon as it exists.
std::deque<AttentionCase> listed_cases() {
  static std::deque<std::string> names;
  const auto keep = [](std::string name) -> std::string_view {
    return names.emplace_back(std::move(name));
  };
  std::deque<AttentionCase> cases;
  for (const fovea::Listed& listed : fovea::list_weightings()) {
    if (listed.hard) continue;
    cases.push_back(listed_case(keep("weighting/" + listed.name), "weighting", 1, 8, 512));
    cases.back().weighting = keep(listed.name);
  }
  for (const fovea::Listed& listed : fovea::list_scores()) {
    cases.push_back(listed_case(keep("score/" + listed.name), "score", 2, 4, 128));
    cases.back().score = keep(listed.name);
  }
  return cases;
}

std::vector<AttentionCase> all_cases() {
  static const std::deque<AttentionCase> listed = listed_cases();
  std::vector<AttentionCase> all;
  for (const AttentionCase& c : fovea::cases::all()) all.push_back(c);
  for (const AttentionCase& c : listed) all.push_back(c);
  return all;
}

const char* backward_name(Backward backward) {
  switch (backward) {
    case Backward::context:
      return "context";
    case Backward::log_prob:
      return "log_prob";
    case Backward::none:
      return "none";
  }
  return "none";
}

Json to_json(const AttentionCase& c) {
  return {{"name", c.name},
          {"group", c.group},
          {"B", c.B},
          {"H", c.H},
          {"Hk", c.Hk},
          {"Lq", c.Lq},
          {"Lk", c.Lk},
          {"D", c.D},
          {"Dv", c.Dv},
          {"A", c.A},
          {"score", c.score},
          {"mask", c.mask},
          {"weighting", c.weighting},
          {"weights", c.weights},
          {"backward", backward_name(c.backward)}};
}

// A case with its inputs in memory, ready to be called again and again.
class Prepared {
 public:
  Prepared(const AttentionCase& c, bool backward, fovea::DType type, Tensors inputs)
      : case_(c),
        backward_(backward),
        type_(type),
        q_(take(inputs, "q")),
        k_(take(inputs, "k")),
        v_(take(inputs, "v")) {
    if (backward_) d_context_ = take(inputs, "d_context");
    if (backward_ && c.backward == Backward::log_prob) d_log_prob_ = take(inputs, "d_log_prob");
    inputs.erase("d_context");
    inputs.erase("d_log_prob");
    parameters_ = std::move(inputs);
    if (backward_) return;
    for (Tensor* t : {&q_, &k_, &v_}) *t = t->to(type_);
  }

  struct Result {
    Tensors outputs;
    fovea::Plan plan;
  };

  Result call() const { return backward_ ? forward_backward() : forward(); }

 private:
  static Tensor take(Tensors& from, const std::string& name) {
    const auto found = from.find(name);
    if (found == from.end()) throw fovea::Error("bench", "no '" + name + "' among the inputs");
    Tensor tensor = found->second;
    from.erase(found);
    return tensor;
  }

  fovea::Attention attention(const fovea::Tensors& parameters) const {
    fovea::Attention a;
    a.score = fovea::score(std::string(case_.score), parameters);
    a.mask = fovea::mask(std::string(case_.mask));
    a.weighting = fovea::weighting(std::string(case_.weighting));
    a.weighting.seed = 1;
    return a;
  }

  Result forward() const {
    const fovea::NoGrad no_grad;
    return finish(attend(q_, k_, v_, attention(parameters_), {.weights = case_.weights}));
  }

  // Fresh leaves over the same data, so that no gradient is there to add to.
  Result forward_backward() const {
    const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(); };
    Tensors leaves{{"d_q", leaf(q_)}, {"d_k", leaf(k_)}, {"d_v", leaf(v_)}};
    fovea::Tensors parameters;
    for (const auto& [name, value] : parameters_)
      leaves["d_" + name] = parameters[name] = leaf(value);
    const fovea::Attended attended =
        attend(leaves["d_q"].to(type_), leaves["d_k"].to(type_), leaves["d_v"].to(type_),
               attention(parameters), {.weights = case_.weights});
    Result result = finish(attended);
    attended.context.backward(d_context_);
    if (d_log_prob_) attended.log_prob().backward(d_log_prob_);
    for (const auto& [name, value] : leaves)
      if (value.grad()) result.outputs[name] = value.grad();
    return result;
  }

  Result finish(const fovea::Attended& attended) const {
    Result result{{{"context", attended.context}}, attended.plan()};
    if (case_.weights) result.outputs["weights"] = attended.weights();
    if (case_.weighting == "sample") result.outputs["chosen"] = attended.chosen();
    return result;
  }

  AttentionCase case_;
  bool backward_;
  fovea::DType type_;
  Tensor q_, k_, v_, d_context_, d_log_prob_;
  fovea::Tensors parameters_;
};

Tensors random_inputs(const AttentionCase& c) {
  const fovea::Sizes n{
      .B = c.B, .H = c.H, .Hk = c.Hk, .Lq = c.Lq, .Lk = c.Lk, .Dq = c.D, .Dk = c.D, .Dv = c.Dv};
  const fovea::generate::Free free{.A = c.A, .A2 = c.A};
  const fovea::ScoreDef& def = *fovea::score(std::string(c.score)).def;
  Tensors inputs = fovea::generate::score(def, n, 7, free).parameters;
  inputs["q"] = Tensor::randn({c.B, c.H, c.Lq, c.D}, 1);
  inputs["k"] = Tensor::randn({c.B, c.Hk, c.Lk, c.D}, 2);
  inputs["v"] = Tensor::randn({c.B, c.Hk, c.Lk, c.Dv}, 3);
  inputs["d_context"] = Tensor::randn({c.B, c.H, c.Lq, c.Dv}, 4);
  if (c.backward == Backward::log_prob) inputs["d_log_prob"] = Tensor::randn({c.B, c.H, c.Lq}, 5);
  return inputs;
}

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, t] : tensors) bytes += t.numel() * size_of(t.dtype());
  return bytes;
}

// One call, looked at closely: its memory, its plan, its outputs.
Json first_call(const Prepared& prepared, const std::string& outputs_path) {
  using namespace fovea::bench;
  reset_resident_peak();
  const int64_t resident = status_bytes("VmRSS"), held = fovea::memory_in_use();
  fovea::reset_memory_peak();
  const Prepared::Result result = prepared.call();
  const int64_t peak = fovea::memory_peak(), resident_peak = status_bytes("VmHWM");
  const int64_t outputs = bytes_of(result.outputs);
  if (!outputs_path.empty()) save_safetensors(outputs_path, result.outputs);
  return {{"plan", name_of(result.plan)},
          {"output_bytes", outputs},
          {"peak_bytes", std::max<int64_t>(0, peak - held - outputs)},
          {"resident_bytes", std::max<int64_t>(0, resident_peak - resident - outputs)}};
}

std::vector<int64_t> time_calls(const Prepared& prepared, size_t reps, double seconds) {
  std::vector<int64_t> ns;
  for (double total = 0; ns.size() < reps || total < seconds;) {
    const double start = fovea::bench::now_seconds();
    prepared.call();
    const double took = fovea::bench::now_seconds() - start;
    ns.push_back(static_cast<int64_t>(took * 1e9));
    total += took;
  }
  return ns;
}

class Worker {
 public:
  Json answer(const Json& request) {
    if (request.contains("machine")) return machine(request["machine"]);
    prepare(request);
    Json answer = looked_at_;
    std::vector<int64_t> ns =
        time_calls(*prepared_, request.value("reps", size_t{3}), request.value("seconds", 0.0));
    answer["ns"] = ns;
    std::sort(ns.begin(), ns.end());
    answer["median_ns"] = ns.empty() ? 0 : ns[ns.size() / 2];
    answer["min_ns"] = ns.empty() ? 0 : ns.front();
    return answer;
  }

 private:
  static Json machine(const Json& request) {
    const int threads = fovea::threads();
    const int64_t bytes = request.value("bytes", int64_t{512} << 20);
    const fovea::bench::Rate peak = fovea::bench::fma_peak(threads);
    return {{"threads", threads},
            {"isa", fovea::isa()},
            {"version", fovea::version()},
            {"flops", peak.best},
            {"flops_lowest", peak.lowest},
            {"flops_stable", peak.stable},
            {"bytes_per_second", fovea::bench::read_bandwidth(threads, bytes).best}};
  }

  // Loads the inputs and makes the first call, unless the request is for the case at hand.
  void prepare(const Json& request) {
    const std::string name = request.at("case"), pass = request.at("pass");
    const std::string inputs = request.value("inputs", ""), outputs = request.value("outputs", "");
    const std::string type = request.value("type", "f32");
    if (type != "f32" && type != "bf16")
      throw fovea::Error("bench", "type is f32 or bf16, not '" + type + "'");
    const std::string key = name + "\n" + pass + "\n" + type + "\n" + inputs;
    if (key == key_ && outputs.empty()) return;
    const std::vector<AttentionCase> all = all_cases();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const AttentionCase& c) { return c.name == name; });
    if (found == all.end()) throw fovea::Error("bench", "no case '" + name + "'");
    if (pass != "forward" && pass != "both")
      throw fovea::Error("bench", "pass is forward or both, not '" + pass + "'");
    if (pass == "both" && found->backward == Backward::none)
      throw fovea::Error("bench", name + " has no backward");
    prepared_.reset();
    key_.clear();
    prepared_.emplace(*found, pass == "both",
                      type == "bf16" ? fovea::DType::bf16 : fovea::DType::f32,
                      inputs.empty() ? random_inputs(*found) : fovea::load_safetensors(inputs));
    looked_at_ = first_call(*prepared_, outputs);
    key_ = key;
  }

  std::string key_;
  std::optional<Prepared> prepared_;
  Json looked_at_;
};

void list_cases() {
  Json list = Json::array();
  for (const AttentionCase& c : all_cases()) list.push_back(to_json(c));
  fmt::print("{}\n", list.dump(1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") {
    list_cases();
    return 0;
  }
  if (argc > 1) {
    fmt::print(stderr, "usage: attention [--list]\n");
    return 2;
  }
  Worker worker;
  fovea::bench::serve([&](const Json& request) { return worker.answer(request); });
  return 0;
}
