// `fovea attend` does what attend() does, on files.
#include <gtest/gtest.h>

#include <cmath>

#include "app/program.h"
#include "fovea/attention.h"
#include "fovea/io.h"

namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

constexpr int64_t B = 2, H = 2, Lq = 5, Lk = 7, D = 6, A = 4;

Tensors inputs(const Shape& leading = {B, H}) {
  const auto with = [&](int64_t l, int64_t d) {
    Shape shape = leading;
    shape.insert(shape.end(), {l, d});
    return shape;
  };
  return {{"q", Tensor::randn(with(Lq, D), 1)},
          {"k", Tensor::randn(with(Lk, D), 2)},
          {"v", Tensor::randn(with(Lk, 3), 3)}};
}

// One call: the file, the run, the output, with everything in a folder of its own.
struct Call {
  Folder folder;
  Ran ran;
  Tensors out;

  Call(const Tensors& in, std::vector<std::string> options) {
    save_safetensors(folder / "in.safetensors", in);
    std::vector<std::string> arguments = {"attend", (folder / "in.safetensors").string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {"-o", (folder / "out.safetensors").string()});
    ran = run_program(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    if (ran.code == 0) out = load_safetensors(folder / "out.safetensors");
  }
};

void expect_equal(const Tensor& found, const Tensor& expected) {
  ASSERT_TRUE(found.defined());
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_EQ(found.to_vector(), expected.to_vector());
}

TEST(Attend, EqualsTheLibraryAtEveryRank) {
  for (const Shape& leading : {Shape{}, Shape{B}, Shape{B, H}}) {
    const Tensors in = inputs(leading);
    const Call call(in, {"--weights", "--lse", "--entropy", "--top", "2", "--mask", "causal"});
    const Attended expected =
        attend(in.at("q"), in.at("k"), in.at("v"), {.mask = masks::causal()}, {.weights = true});
    expect_equal(call.out.at("context"), expected.context);
    expect_equal(call.out.at("weights"), expected.weights());
    expect_equal(call.out.at("lse"), expected.log_sum_exp());
    expect_equal(call.out.at("entropy"), expected.entropy());
    expect_equal(call.out.at("top_weights"), expected.top(2).weights);
    EXPECT_EQ(call.out.at("top_keys").to_ids(), expected.top(2).keys.to_ids());
    EXPECT_EQ(call.out.size(), 6u);
    EXPECT_EQ(call.out.at("context").rank(), in.at("q").rank());
    EXPECT_EQ(call.folder.files(), 2);
  }
}

// In 16 bits as attend() is; what comes out has 32.
TEST(Attend, ComputesWithHalvesAsTheyAre) {
  Tensors in = inputs();
  in["d_context"] = Tensor::randn({B, H, Lq, 3}, 9);
  for (const DType type : {DType::bf16, DType::f16}) {
    Tensors halves = in;
    for (const char* name : {"q", "k", "v"}) halves[name] = in.at(name).to(type);
    const Call call(halves, {"--grad"});
    const auto leaf = [&](const char* name) {
      return halves.at(name).to(DType::f32).set_requires_grad();
    };
    const Tensor q = leaf("q"), k = leaf("k"), v = leaf("v");
    const Attended expected = attend(q.to(type), k.to(type), v.to(type));
    expect_equal(call.out.at("context"), expected.context);
    expected.context.backward(in.at("d_context"));
    expect_equal(call.out.at("d_q"), q.grad());
    expect_equal(call.out.at("d_v"), v.grad());
  }
}

// The plain formula, in double.
TEST(Attend, IsSoftmaxOfScaledDots) {
  const Tensors in = inputs({});
  const Call call(in, {});
  const std::vector<float> q = in.at("q").to_vector(), k = in.at("k").to_vector(),
                           v = in.at("v").to_vector(), context = call.out.at("context").to_vector();
  for (int64_t i = 0; i < Lq; ++i) {
    double sum = 0, c[3] = {};
    for (int64_t j = 0; j < Lk; ++j) {
      double e = 0;
      for (int64_t d = 0; d < D; ++d) e += double{q[i * D + d]} * k[j * D + d];
      const double w = std::exp(e / std::sqrt(double{D}));
      sum += w;
      for (int d = 0; d < 3; ++d) c[d] += w * v[j * 3 + d];
    }
    for (int d = 0; d < 3; ++d) EXPECT_NEAR(context[i * 3 + d], c[d] / sum, 1e-5);
  }
}

// "w_q [A,Dq]" → a name and a shape.
std::pair<std::string, Shape> declared(const std::string& text) {
  static const std::map<std::string, int64_t> kSizes = {
      {"A", A},   {"A2", 3}, {"B", B},  {"H", H},    {"Lq", Lq},
      {"Lk", Lk}, {"Dq", D}, {"Dk", D}, {"Lmax", 9}, {"Dq+Dk", 2 * D}};
  const size_t space = text.find(' ');
  std::string name = text.substr(0, space), letter;
  if (name.ends_with('?')) name.pop_back();
  Shape shape;
  for (const char c : text.substr(space + 2)) {
    if (c != ',' && c != ']') {
      if (c != '?') letter += c;
    } else if (!letter.empty()) {
      shape.push_back(kSizes.at(letter));
      letter.clear();
    }
  }
  return {name, shape};
}

// Whatever is in the list runs from the command line, with its gradients, as in the library.
TEST(Attend, EveryScore) {
  for (const Listed& listed : list_scores()) {
    SCOPED_TRACE(listed.name);
    Tensors in = inputs();
    in["d_context"] = Tensor::randn({B, H, Lq, 3}, 4);
    Tensors parameters;
    for (const std::string& text : listed.parameters) {
      const auto [name, shape] = declared(text);
      parameters[name] = in[name] = Tensor::randn(shape, 5 + parameters.size());
    }
    const Call call(in, {"--score", listed.name, "--grad"});
    std::vector<Tensor> leaves = {in.at("q"), in.at("k"), in.at("v")};
    std::vector<std::string> names = {"q", "k", "v"};
    for (const auto& [name, tensor] : parameters) {
      leaves.push_back(tensor);
      names.push_back(name);
    }
    for (Tensor& leaf : leaves) leaf.set_requires_grad();
    const Attended expected =
        attend(leaves[0], leaves[1], leaves[2], {.score = score(listed.name, parameters)});
    expect_equal(call.out.at("context"), expected.context.detach());
    const std::vector<Tensor> grads = gradients(expected.context, in.at("d_context"), leaves);
    for (size_t i = 0; i < names.size(); ++i) expect_equal(call.out.at("d_" + names[i]), grads[i]);
    EXPECT_EQ(call.out.size(), names.size() + 1);
  }
}

TEST(Attend, CapsScores) {
  const Tensors in = inputs();
  const Call call(in, {"--softcap", "0.5", "--mask", "window:2,0"});
  Attention capped{.mask = masks::window(2, 0)};
  capped.score.softcap = 0.5f;
  expect_equal(call.out.at("context"), attend(in.at("q"), in.at("k"), in.at("v"), capped).context);
}

TEST(Attend, TakesASink) {
  Tensors in = inputs();
  in["sink"] = Tensor::from({0.5f, -1.0f}, {H});
  in["d_context"] = Tensor::randn({B, H, Lq, 3}, 4);
  const Call call(in, {"--grad", "--lse"});
  Tensor sink = in.at("sink").detach();
  sink.set_requires_grad();
  const Attended expected =
      attend(in.at("q"), in.at("k"), in.at("v"), {.weighting = weightings::softmax(1.0f, sink)});
  expect_equal(call.out.at("context"), expected.context.detach());
  expect_equal(call.out.at("lse"), expected.log_sum_exp().detach());
  expect_equal(call.out.at("d_sink"),
               gradients(expected.context, in.at("d_context"), std::vector{sink})[0]);
  const Call other(in, {"--weighting", "sparsemax"});
  EXPECT_NE(other.ran.out.find("not used by this choice: d_context, sink"), std::string::npos)
      << other.ran.out;
}

TEST(Attend, EveryWeighting) {
  const Tensors in = inputs();
  for (const Listed& listed : list_weightings()) {
    SCOPED_TRACE(listed.name);
    const Call call(
        in, {"--weighting", listed.name, "--seed", "7", "--temperature", "1.5", "--weights"});
    Weighting chosen = weighting(listed.name);
    chosen.seed = 7;
    chosen.temperature = 1.5f;
    const Attended expected =
        attend(in.at("q"), in.at("k"), in.at("v"), {.weighting = chosen}, {.weights = true});
    expect_equal(call.out.at("context"), expected.context);
    expect_equal(call.out.at("weights"), expected.weights());
  }
}

TEST(Attend, HardWeightingsSayWhatTheyChose) {
  for (const char* name : {"sample", "argmax", "gumbel"}) {
    const Call call(inputs(), {"--weighting", name, "--seed", "3"});
    ASSERT_TRUE(call.out.contains("chosen")) << name;
    EXPECT_EQ(call.out.at("chosen").shape(), (Shape{B, H, Lq}));
    EXPECT_EQ(call.out.at("chosen").dtype(), DType::i64);
    for (const int64_t key : call.out.at("chosen").to_ids()) {
      EXPECT_GE(key, 0);
      EXPECT_LT(key, Lk);
    }
    for (const float x : call.out.at("log_prob").to_vector()) EXPECT_LE(x, 0.0f);
  }
  EXPECT_FALSE(Call(inputs(), {}).out.contains("chosen"));
}

TEST(Attend, EveryMask) {
  Tensors in = inputs();
  in["lengths"] = Tensor::from_ids(std::vector<int64_t>{3, 7}, {B});
  in["w_p"] = Tensor::randn({A, D}, 5);
  in["u_p"] = Tensor::randn({A}, 6);
  in["q_segments"] = Tensor::from_ids(std::vector<int64_t>{0, 0, 1, 1, 1, 0, 0, 0, 1, 1}, {B, Lq});
  in["k_segments"] =
      Tensor::from_ids(std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1}, {B, Lk});
  in["mask"] = Tensor::from_bools(std::vector<uint8_t>{1, 0, 1, 1, 0, 1, 1}, {Lk});
  const Mask lengths = masks::lengths(in["lengths"]);
  const Mask local = masks::local_p(2, in["w_p"], in["u_p"]);
  const std::vector<std::pair<std::string, Mask>> specs = {
      {"everything", masks::everything()},
      {"causal", masks::causal()},
      {"window:1", masks::window(1)},
      {"local-p:2", local},
      {"local_p:2", local},
      {"lengths", lengths},
      {"segments", masks::segments(in["q_segments"], in["k_segments"])},
      {"matrix", masks::matrix(in["mask"])},
      {"causal+lengths+matrix", masks::causal() & lengths & masks::matrix(in["mask"])}};
  for (const auto& [spec, mask] : specs) {
    SCOPED_TRACE(spec);
    const Call call(in, {"--mask", spec});
    expect_equal(call.out.at("context"),
                 attend(in.at("q"), in.at("k"), in.at("v"), {.mask = mask}).context);
  }
}

TEST(Attend, LocalPRenormalised) {
  Tensors in = inputs();
  in["w_p"] = Tensor::randn({A, D}, 5);
  in["u_p"] = Tensor::randn({A}, 6);
  const Call call(in, {"--mask", "local-p:2", "--renormalise", "--weights"});
  expect_equal(call.out.at("context"),
               attend(in.at("q"), in.at("k"), in.at("v"),
                      {.mask = masks::local_p(2, in["w_p"], in["u_p"], true)})
                   .context);
}

TEST(Attend, GradientsOfEveryFloatInput) {
  Tensors in = inputs();
  in["d_context"] = Tensor::randn({B, H, Lq, 3}, 4);
  in["bias"] = Tensor::randn({H, Lq, Lk}, 5);
  in["mask"] = Tensor::randn({Lq, Lk}, 6);
  in["w"] = Tensor::randn({D, D}, 7);
  in["ids"] = Tensor::arange(3);
  const Call call(in, {"--mask", "matrix", "--grad"});
  for (const char* name : {"q", "k", "v", "bias", "mask", "w"}) {
    ASSERT_TRUE(call.out.contains(std::string("d_") + name)) << name;
    EXPECT_EQ(call.out.at(std::string("d_") + name).shape(), in.at(name).shape());
  }
  EXPECT_EQ(call.out.size(), 7u);
  EXPECT_EQ(call.out.at("d_w").to_vector(), std::vector<float>(D * D, 0.0f));
  double moved = 0;
  for (const float x : call.out.at("d_bias").to_vector()) moved += std::abs(x);
  EXPECT_GT(moved, 0.1);
  EXPECT_NE(call.ran.out.find("not used by this choice: ids, w"), std::string::npos)
      << call.ran.out;
}

TEST(Attend, AdditiveWithUAloneIsKeras) {
  Tensors in = inputs();
  in["u"] = Tensor::randn({D}, 5);
  expect_equal(Call(in, {"--score", "additive"}).out.at("context"),
               Call(in, {"--score", "additive-keras"}).out.at("context"));
}

TEST(Attend, GroupedHeadsScaleAndDropout) {
  Tensors in = inputs();
  in["k"] = Tensor::randn({B, 1, Lk, D}, 8);
  in["v"] = Tensor::randn({B, 1, Lk, 3}, 9);
  const Call call(in, {"--score", "dot", "--scale", "-0.25", "--dropout", "0.5", "--seed", "11"});
  Attention expected{.score = scores::dot()};
  expected.score.scale = -0.25f;
  expected.weighting = weightings::softmax();
  expected.weighting.dropout = 0.5f;
  expected.weighting.seed = 11;
  expect_equal(call.out.at("context"), attend(in["q"], in["k"], in["v"], expected).context);
}

// As options of training are: digits are decimal, and the last of an option counts.
TEST(Attend, ReadsNumbersAsTrainingDoes) {
  const auto bytes = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--weighting", "sample"});
    return Call(inputs(), more).out.at("context").to_vector();
  };
  EXPECT_EQ(bytes({"--seed", "010"}), bytes({"--seed", "10"}));
  EXPECT_NE(bytes({"--seed", "010"}), bytes({"--seed", "8"}));
  EXPECT_EQ(bytes({"--seed", "8", "--seed", "10"}), bytes({"--seed", "10"}));
}

TEST(Attend, EveryPlanThatFitsAgrees) {
  const Tensors in = inputs();
  const std::vector<float> expected = Call(in, {"--plan", "reference"}).out["context"].to_vector();
  for (const char* plan : {"automatic", "fused", "composed"}) {
    const std::vector<float> found = Call(in, {"--plan", plan}).out["context"].to_vector();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << plan;
  }
}

TEST(Attend, ThreadsDoNotMatter) {
  Tensors in = inputs();
  in["d_context"] = Tensor::randn({B, H, Lq, 3}, 4);
  std::string first;
  for (const char* threads : {"1", "2", "4"}) {
    const Call call(in, {"--weighting", "sample", "--grad", "--threads", threads});
    const std::string bytes = test::read_bytes(call.folder / "out.safetensors");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads;
  }
}

TEST(Attend, ReadsHalfPrecision) {
  // q, k, v [1, 2] of BF16: 1 2, 1 0, 3 4. One key: the context is its value.
  const std::string header =
      "{\"q\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
      "\"k\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[4,8]},"
      "\"v\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[8,12]}}";
  const Folder folder;
  test::write_bytes(folder / "in",
                    test::file_of(header, std::string("\x80\x3f\x00\x40\x80\x3f\x00\x00"
                                                      "\x40\x40\x80\x40",
                                                      12)));
  const Ran ran = run_program({"attend", folder / "in", "-o", folder / "out"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(load_safetensors(folder / "out").at("context").to_vector(), (std::vector<float>{3, 4}));
}

TEST(Attend, WritesOneFileOnce) {
  const Folder folder;
  save_safetensors(folder / "in", inputs());
  const Ran ran = run_program(
      {"attend", folder / "in", "-o", folder / "x.json", "--picture", folder / "x.json"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("--out and --picture are one file"), std::string::npos) << ran.err;
  EXPECT_EQ(folder.files(), 1);
}

TEST(Attend, WithoutAnOutputSummarises) {
  const Folder folder;
  save_safetensors(folder / "in", inputs());
  const Ran ran = run_program({"attend", folder / "in", "--lse"}, "FOVEA_VERBOSE=1");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"context", "[2, 2, 5, 3]", "norm", "lse", "plan "}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  }
  EXPECT_NE(ran.err.find("plan "), std::string::npos) << ran.err;
  EXPECT_EQ(folder.files(), 1);
}

TEST(Attend, TakesThePlanOfTheEnvironmentWhereNoneIsAskedFor) {
  const Folder folder;
  save_safetensors(folder / "in", inputs());
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"attend", folder / "in"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words, "FOVEA_PLAN=composed").out;
  };
  EXPECT_NE(said({}).find("plan composed"), std::string::npos);
  EXPECT_NE(said({"--plan", "fused"}).find("plan fused"), std::string::npos);
  EXPECT_EQ(run_program({"attend", folder / "in"}, "FOVEA_PLAN=quick").code, 2);
}

}  // namespace
}  // namespace fovea
