// Every weighting, predicted windows, conditions, given scores, and looks inside: the GPU against
// the CPU's kernels, which the library's own tests hold against float64. The same code calls both.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "case.h"
#include "kernels/open.h"
#include "kernels/table.h"

namespace fovea::test {
namespace {

using kernels::AttentionGradients;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::View;
using kernels::Weigh;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct General {
  std::string name;
  Case c;
  Weigh weigh = Weigh::softmax;
  bool given = false;
  bool window = false, renormalise = false;
  bool conditions = false;     // another matrix, and numbers that must be equal
  bool d_weights = false;      // besides d_context
  bool probabilities = false;  // gradients of log-sum-exp, entropy and log-probability instead
};
void PrintTo(const General& x, std::ostream* to) { *to << x.name; }

bool is_hard(Weigh w) { return w == Weigh::argmax || w == Weigh::sample || w == Weigh::gumbel; }

// The numbers of a case, on the CPU or copied to the GPU, and what calls write there.
class Side {
 public:
  explicit Side(const kernels::Kernels* gpu) : gpu_(gpu) {}
  ~Side() {
    for (const auto& [host, device] : copies_) gpu_->give_back(device);
  }
  Side(const Side&) = delete;

  const kernels::Kernels& kernels() const { return gpu_ ? *gpu_ : kernels::kCpu; }

  template <class T>
  T* at(const std::vector<T>& x) {
    if (x.empty()) return nullptr;
    if (!gpu_) return const_cast<T*>(x.data());
    void*& device = copies_[x.data()];
    if (!device) {
      device = gpu_->allocate(x.size() * sizeof(T));
      gpu_->upload(device, x.data(), x.size() * sizeof(T));
    }
    return static_cast<T*>(device);
  }
  template <class T>
  View<const T> moved(View<const T> v, const std::vector<T>& owner) {
    if (!v) return v;
    v.data = at(owner) + (v.data - owner.data());
    return v;
  }
  float* out(const std::string& name, int64_t size) {
    outputs[name].assign(static_cast<size_t>(size), 7e33f);
    return at(outputs[name]);
  }
  void finish() {
    for (auto& [name, x] : outputs) {
      if (gpu_ && !x.empty()) gpu_->download(x.data(), at(x), x.size() * sizeof(float));
    }
    if (gpu_ && !chosen.empty()) {
      gpu_->download(chosen.data(), at(chosen), chosen.size() * sizeof(int32_t));
    }
    if (gpu_ && !keys.empty()) {
      gpu_->download(keys.data(), at(keys), keys.size() * sizeof(int64_t));
    }
  }

  std::map<std::string, std::vector<float>> outputs;
  std::vector<int32_t> chosen;
  std::vector<int64_t> keys;  // of the largest weights
  std::vector<kernels::Condition> conditions;

 private:
  const kernels::Kernels* gpu_;
  std::map<const void*, void*> copies_;
};

// What a General has besides its Case.
struct More {
  std::vector<float> given, center, d_weights, d_stat, d_entropy, d_log_prob;
  std::vector<uint8_t> other;
  std::vector<int64_t> of_query, of_key;

  explicit More(const General& x) {
    const Case& c = x.c;
    std::mt19937_64 random(11);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) to.push_back(normal(random));
    };
    const int64_t rows = c.B * c.H * c.Lq, pairs = rows * c.Lk;
    if (x.given) fill(given, pairs);
    if (x.d_weights) fill(d_weights, pairs);
    if (x.probabilities) fill(d_stat, rows), fill(d_entropy, rows), fill(d_log_prob, rows);
    for (int64_t r = 0; x.window && r < rows; ++r) {
      center.push_back(static_cast<float>(random() % 1000) * 1e-3f * static_cast<float>(c.Lk));
    }
    if (!x.conditions) return;
    for (int64_t i = 0; i < c.Lq * c.Lk; ++i) other.push_back(random() % 4 != 0);
    for (int64_t i = 0; i < c.B * c.Lq; ++i) of_query.push_back(int64_t(random() % 3));
    for (int64_t j = 0; j < c.B * c.Lk; ++j) of_key.push_back(int64_t(random() % 3));
  }
};

AttentionProblem problem_of(const General& x, const Numbers& n, const More& more, Side& side) {
  AttentionProblem p = n.problem;
  p.first = {};  // conditions go by rows of the whole call
  p.q = side.moved(p.q, n.q);
  p.k = side.moved(p.k, n.k);
  p.v = side.moved(p.v, n.v);
  p.u = side.at(n.u);
  p.begin = side.moved(p.begin, n.begin);
  p.end = side.moved(p.end, n.end);
  p.allowed = side.moved(p.allowed, n.allowed);
  p.bias = side.moved(p.bias, n.bias);
  p.sink = side.at(n.sink);
  p.weigh = x.weigh;
  if (x.given) {
    p.family = Family::given;
    p.q = p.k = {}, p.u = nullptr, p.D = 0;
    p.given = {side.at(more.given), p.H * p.Lq * p.Lk, p.Lq * p.Lk, p.Lk, 1};
  }
  if (x.window) {
    p.center = {side.at(more.center), p.H * p.Lq, p.Lq, 1, 0};
    p.sigma = 0.2f * static_cast<float>(p.Lk) + 1.0f;
    p.renormalise = x.renormalise;
  }
  if (x.conditions) {
    side.conditions = {{.allowed = {side.at(more.other), 0, 0, p.Lk, 1}},
                       {.of_query = {side.at(more.of_query), p.Lq, 0, 1, 0},
                        .of_key = {side.at(more.of_key), p.Lk, 0, 1, 0}}};
    p.conditions = side.at(side.conditions);
    p.n_conditions = 2;
  }
  return p;
}

// All calls of a case, one after another.
void compute(const General& x, const Numbers& n, const More& more, Side& side) {
  const AttentionProblem p = problem_of(x, n, more, side);
  const kernels::Kernels& k = side.kernels();
  const Case& c = x.c;
  const int64_t rows = p.rows();
  side.chosen.assign(is_hard(x.weigh) ? static_cast<size_t>(rows) : 0, -5);
  const auto out = [&](const char* name, const Shape& s) {
    return view_of(side.out(name, s.size()), s, c);
  };
  AttentionResult r;
  r.context = out("context", {p.B, p.H, p.Lq, p.Dv});
  r.stat = side.out("stat", rows);
  r.chosen = side.at(side.chosen);
  k.attention_forward(p, r);

  const Shape all{p.B, p.H, p.Lq, p.Lk};
  const View<float> weights{side.out("weights", all.size()), p.H * p.Lq * p.Lk, p.Lq * p.Lk, p.Lk,
                            1};
  k.attention_weights(p, r, {.n_heads = p.H, .n_rows = p.Lq}, weights);
  const std::vector<int64_t> heads{p.H - 1, 0}, picked{p.Lq - 1, 0, std::min<int64_t>(1, p.Lq - 1)};
  const View<float> some{side.out("some weights", p.B * 6 * p.Lk), 6 * p.Lk, 3 * p.Lk, p.Lk, 1};
  k.attention_weights(p, r, {heads.data(), 2, picked.data(), 3}, some);
  const int64_t top = std::min<int64_t>(3, p.Lk);
  side.keys.assign(static_cast<size_t>(rows * top), -5);
  k.top_of_rows({.rows = rows, .n = p.Lk, .k = top}, weights.data, side.out("top", rows * top),
                side.at(side.keys));

  AttentionProblem soft = p;
  soft.weigh = Weigh::softmax, soft.dropout = 0.0f, soft.Dv = 0, soft.v = {};
  if (!p.renormalise) soft.center = {};
  float* const sums = side.out("log-sum-exp", rows);
  float* const entropy = side.out("entropy", rows);
  k.attention_forward(soft, {.stat = sums});
  k.attention_entropy(soft, sums, entropy);
  if (is_hard(x.weigh)) {
    k.attention_log_prob(soft, sums, r.chosen, side.out("log prob", rows));
  }

  AttentionGradients g;
  g.stat = r.stat, g.chosen = r.chosen;
  if (x.probabilities) {
    g.stat = sums, g.entropy = entropy;
    g.d_stat = side.at(more.d_stat), g.d_entropy = side.at(more.d_entropy);
    if (is_hard(x.weigh)) g.d_log_prob = side.at(more.d_log_prob);
  } else {
    g.context = {r.context.data, r.context.b, r.context.h, r.context.r, r.context.c};
    g.d_context = side.moved(n.d_context_view, n.d_context);
    if (x.d_weights) {
      g.d_weights = {side.at(more.d_weights), p.H * p.Lq * p.Lk, p.Lq * p.Lk, p.Lk, 1};
    }
    g.dv = out("dv", {p.B, p.Hk, p.Lk, p.Dv});
  }
  const auto zeros = [&](const char* name, int64_t size) {
    side.out(name, 0);
    side.outputs[name].assign(static_cast<size_t>(size), 0.0f);
    return side.at(side.outputs[name]);
  };
  if (x.given) {
    g.dgiven = {zeros("dgiven", all.size()), p.H * p.Lq * p.Lk, p.Lq * p.Lk, p.Lk, 1};
  } else {
    g.dq = out("dq", {p.B, p.H, p.Lq, p.D});
    g.dk = out("dk", {p.B, p.Hk, p.Lk, p.D});
    if (p.u) g.du = side.out("du", p.D);
  }
  if (p.sink && x.weigh == Weigh::softmax) g.dsink = side.out("dsink", rows);
  if (p.center && (!x.probabilities || p.renormalise)) g.dcenter = zeros("dcenter", rows);
  if (p.bias) {
    const auto offset = n.problem.bias.data - n.bias.data();
    const auto span = static_cast<int64_t>(n.bias.size());
    g.dbias = {zeros("dbias", span) + offset, p.bias.b, p.bias.h, p.bias.r, p.bias.c};
    g.dbias_low = -offset, g.dbias_span = span;
  }
  k.attention_backward(x.probabilities ? soft : p, g);
  side.finish();
}

const kernels::Kernels* gpu() { return cuda::open_module().kernels; }

std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

void like_the_cpu(const General& x, const Numbers& n, double most) {
  const More more(x);
  Side cpu(nullptr), once(gpu()), twice(gpu());
  compute(x, n, more, cpu);
  compute(x, n, more, once);
  compute(x, n, more, twice);
  EXPECT_EQ(once.chosen, cpu.chosen);
  for (const auto& [name, should] : cpu.outputs) {
    const std::vector<float>& is = once.outputs.at(name);
    EXPECT_LE(distance(doubles(is), doubles(should)), most) << name;
    const std::vector<float>& again = twice.outputs.at(name);
    EXPECT_TRUE(is.empty() || std::memcmp(is.data(), again.data(), is.size() * sizeof(float)) == 0)
        << name << ": other bits the second time";
  }
  // Keys by their weights: of equal ones roundings decide.
  for (size_t t = 0; t < once.keys.size(); ++t) {
    const int64_t Lk = x.c.Lk, k = std::min<int64_t>(3, Lk);
    const float w = once.outputs.at("weights")[t / k * Lk + once.keys[t]];
    const float top = once.outputs.at("top")[t];
    EXPECT_TRUE(w == top || (std::isnan(w) && std::isnan(top)));
  }
}

const char* name_of(Weigh w) {
  switch (w) {
    case Weigh::softmax:
      return "softmax";
    case Weigh::sample:
      return "sample";
    case Weigh::argmax:
      return "argmax";
    case Weigh::gumbel:
      return "gumbel";
    case Weigh::sparsemax:
      return "sparsemax";
    case Weigh::entmax15:
      return "entmax15";
    case Weigh::sigmoid:
      return "sigmoid";
    default:
      return "none";
  }
}

std::vector<General> cases() {
  std::vector<General> all;
  const Case base{.B = 2, .H = 4, .Hk = 2, .Lq = 70, .Lk = 150, .A = 20, .Dv = 12};
  for (const Weigh weigh : {Weigh::softmax, Weigh::sample, Weigh::argmax, Weigh::gumbel,
                            Weigh::sparsemax, Weigh::entmax15, Weigh::sigmoid, Weigh::none}) {
    for (const Family family : {Family::dot, Family::additive, Family::given}) {
      const bool given = family == Family::given;
      const auto with = [&](const std::string& name, auto change) {
        General x{.c = base, .weigh = weigh, .given = given};
        x.c.family = given ? Family::dot : family;
        x.c.scale = 0.4f;
        change(x);
        x.name = std::string(name_of(weigh)) +
                 (given                   ? "_given_"
                  : family == Family::dot ? "_dot_"
                                          : "_additive_") +
                 name;
        all.push_back(x);
      };
      with("plain", [](General&) {});
      with("d_weights", [](General& x) { x.d_weights = true; });
      with("window", [](General& x) { x.window = true, x.d_weights = true, x.c.dropout = 0.2f; });
      with("renormalised", [](General& x) {
        x.window = x.renormalise = true;
        x.c.softcap = 3.0f;
      });
      with("conditions", [](General& x) { x.conditions = true; });
      with("everything", [](General& x) {
        x.c.ranges = Ranges::some_empty;
        x.c.allowed = true;
        x.c.bias = Bias::shared_by_heads;
        x.c.dropout = 0.3f;
        x.c.softcap = 4.0f;
        x.c.sink = x.weigh == Weigh::softmax;
        x.c.temperature = 1.3f;
        x.c.heads_inside = true;
        x.conditions = x.d_weights = true;
      });
      with("probabilities", [](General& x) {
        x.probabilities = true;
        x.c.ranges = Ranges::some_empty;
        x.c.sink = x.weigh == Weigh::softmax;
        x.c.bias = Bias::full;
      });
      with("long_rows",
           [](General& x) { x.c.Lk = 1500, x.c.Lq = 5, x.c.B = 1, x.c.ranges = Ranges::causal; });
      with("one", [](General& x) { x.c = {.family = x.c.family}; });
    }
  }
  return all;
}

class GpuGeneral : public testing::TestWithParam<General> {};
TEST_P(GpuGeneral, IsWhatTheCpuComputes) { like_the_cpu(GetParam(), Numbers(GetParam().c), 1e-4); }
INSTANTIATE_TEST_SUITE_P(Cases, GpuGeneral, testing::ValuesIn(cases()),
                         [](const auto& x) { return x.param.name; });

// What is hidden stays hidden, what is seen shows.
class GpuGeneralNan : public testing::TestWithParam<Weigh> {};
TEST_P(GpuGeneralNan, ShowsWhereItIsSeen) {
  for (const Family family : {Family::dot, Family::additive}) {
    const Case c{.family = family,
                 .B = 2,
                 .H = 2,
                 .Hk = 2,
                 .Lq = 60,
                 .Lk = 60,
                 .A = 20,
                 .Dv = 12,
                 .ranges = Ranges::causal};
    const General x{.c = c, .weigh = GetParam()};
    // The CPU's sums of additive gradients take a NaN to the feature that shares its division.
    const bool spreads = GetParam() == Weigh::none && family == Family::additive;
    for (int where = spreads ? 1 : 0; where < 3; ++where) {
      Numbers n(x.c);
      std::vector<float>& of = where == 0 ? n.k : where == 1 ? n.v : n.d_context;
      of[of.size() / 3] = kNan;
      SCOPED_TRACE(std::string(family == Family::dot ? "dot" : "additive") + (where == 0 ? ", keys"
                                                                              : where == 1
                                                                                  ? ", values"
                                                                                  : ", gradient"));
      like_the_cpu(x, n, 1e-4);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Weightings, GpuGeneralNan,
                         testing::Values(Weigh::softmax, Weigh::sample, Weigh::argmax,
                                         Weigh::gumbel, Weigh::sparsemax, Weigh::entmax15,
                                         Weigh::sigmoid, Weigh::none),
                         [](const auto& x) { return name_of(x.param); });

TEST(GpuGeneralMemory, IsLinear) {
  const cuda::Module& module = cuda::open_module();
  General x{.c = {.family = Family::dot, .Lq = 20000, .Lk = 20000, .A = 16, .Dv = 16},
            .weigh = Weigh::sigmoid};
  const Numbers n(x.c);
  const int64_t before = module.memory().in_use;
  module.reset_peak();
  {
    Side side(module.kernels);
    const AttentionProblem p = problem_of(x, n, More(x), side);
    AttentionResult r{.stat = side.out("stat", p.rows())};
    r.context = view_of(side.out("context", p.rows() * p.Dv), {1, 1, p.Lq, p.Dv}, x.c);
    module.kernels->attention_forward(p, r);
    AttentionGradients g{.d_context = side.moved(n.d_context_view, n.d_context)};
    g.dq = view_of(side.out("dq", p.rows() * p.D), {1, 1, p.Lq, p.D}, x.c);
    module.kernels->attention_backward(p, g);
    side.finish();
  }
  EXPECT_LT(module.memory().peak - before, int64_t{240} << 20);
}

}  // namespace
}  // namespace fovea::test
