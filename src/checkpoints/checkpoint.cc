#include "checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoints/folder.h"
#include "core/allocator.h"
#include "core/memory_available.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

namespace fovea::checkpoints {
namespace {

namespace fs = std::filesystem;

// What a plan makes of weights, drawn, sketched or given.
struct Built {
  models::Transformer model;
  std::optional<Head> head;
  std::optional<PictureRows> picture;
};

Head head_of(nn::Weights& w, const HeadPlan& plan, const Tensor& embedding, float epsilon) {
  Head h{.plan = plan};
  int64_t width = plan.in;
  if (plan.dense > 0) {
    h.dense = nn::linear(w, "head.dense", width, plan.dense);
    width = plan.dense;
  }
  if (plan.norm) h.norm = nn::norm(w, "head.norm", nn::NormKind::layer, width, epsilon);
  if (plan.tied) {
    h.out = {embedding, w.add("head.out.bias", {plan.out}, nn::Init::zeros)};
  } else {
    h.out = nn::linear(w, "head.out", width, plan.out);
  }
  if (plan.second) h.second = nn::linear(w, "head.second", width, plan.out);
  return h;
}

Built build(const ModelPlan& plan, nn::Weights weights) {
  Built b;
  if (plan.picture) {
    const PicturePlan& p = *plan.picture;
    b.model.config = plan.network;
    b.model.weights = std::move(weights);
    nn::Weights& w = b.model.weights;
    b.model.encoder = models::encoder_stack(w, "encoder", plan.network);
    b.picture = PictureRows{.plan = p};
    b.picture->patches =
        nn::linear(w, "patches", p.channels * p.patch * p.patch, plan.network.depth);
    b.picture->tokens = w.add("tokens", {p.tokens, plan.network.depth}, nn::Init::small);
  } else {
    b.model = models::transformer(plan.network, std::move(weights));
  }
  if (plan.head) {
    b.head = head_of(b.model.weights, *plan.head, b.model.source.table, plan.network.epsilon);
  }
  return b;
}

// Everything but the data.
struct Opening {
  Config config;
  StoredTensors stored;
  ModelPlan plan;
  CheckpointInfo about;
};

// Numbers and memory of all that is made, what is shared once.
void count(const Tensors& all, const Opening& o, CheckpointInfo& of) {
  std::set<std::string> counted;
  for (const auto& [name, t] : all) {
    const TensorRecipe& from = o.plan.recipe.at(name);
    const bool shared =
        is_plain(from) && from.parts.size() == 1 && !counted.insert(from.parts[0].name).second;
    if (shared) continue;
    const DType dtype = type_of(o.stored, name, from, of.kept);
    of.weights += t.numel();
    of.memory_bytes += t.numel() * size_of(dtype);
    if (dtype == DType::i8) of.memory_bytes += t.size(0) * size_of(DType::f32);
  }
}

// What is made of weights and what is read of the files must be the same tensors.
void expect_whole(const Tensors& made, const Recipe& recipe) {
  for (const auto& [name, t] : made) {
    if (!recipe.contains(name))
      throw Error("open", name + " is made of nothing: a mistake of ours");
  }
  for (const auto& [name, from] : recipe) {
    if (!made.contains(name)) throw Error("open", name + " is not needed: a mistake of ours");
  }
}

Opening opening(const fs::path& path, KeptAs kept) {
  const fs::path folder = folder_of(path);
  Config config = Config::in(folder / "config.json");
  const Architecture& a = architecture(config);
  refuse_odd(config, folder);
  StoredTensors stored(weight_files(folder), a.prefix);
  ModelPlan plan = a.plan(config, stored);
  check(stored, plan.recipe, [&](const std::string& name) {
    return std::any_of(plan.passed_by.begin(), plan.passed_by.end(),
                       [&](const std::string& end) { return name.ends_with(end); });
  });
  const Tensors sketch = build(plan, nn::Weights::sketch()).model.weights.all();
  expect_whole(sketch, plan.recipe);
  Opening o{std::move(config), std::move(stored), std::move(plan), {}};
  o.about = {.folder = folder,
             .type = a.type,
             .title = a.title,
             .purpose = o.plan.purpose,
             .network = o.plan.network,
             .longest = o.plan.longest,
             .stored = o.stored.types(),
             .file_bytes = o.stored.bytes(),
             .kept = kept_on(default_device(), kept)};
  count(sketch, o, o.about);
  const bool tells = o.about.purpose == Purpose::tells || o.about.purpose == Purpose::sees;
  if (tells) o.about.classes = classes_in(o.config, o.plan.head->out);
  return o;
}

bool are_equal(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const std::byte *x = a.impl()->data, *y = b.impl()->data;
  const Tensor &s = a.impl()->scale, &t = b.impl()->scale;
  return std::equal(x, x + a.numel() * size_of(a.dtype()), y) && (!s || are_equal(s, t));
}

// An output layer that is stored beside the embedding, and is the same, is kept once.
void tie_equal(Tensors& tensors, ModelPlan& plan) {
  const auto output = tensors.find("output.weight");
  if (output != tensors.end() && are_equal(output->second, tensors.at("target.weight"))) {
    tensors.erase(output);
    plan.network.tied = true;
  }
  const auto head = tensors.find("head.out.weight");
  if (plan.purpose == Purpose::fills && head != tensors.end() &&
      are_equal(head->second, tensors.at("source.weight"))) {
    tensors.erase(head);
    plan.head->tied = true;
  }
}

std::vector<float> numbers_in(const Config& c, const std::string& key, float otherwise,
                              int64_t count) {
  if (!c.has(key)) return std::vector<float>(static_cast<size_t>(count), otherwise);
  std::vector<float> all;
  for (const Config::Json& x : c.json()[key]) {
    if (!x.is_number()) c.refuse(key, "expected numbers");
    all.push_back(x.get<float>());
  }
  if (static_cast<int64_t>(all.size()) != count) {
    c.refuse(key, fmt::format("expected {} numbers", count));
  }
  return all;
}

// preprocessor_config.json: how pixels become numbers.
void read_preprocessing(const fs::path& folder, PictureRows& rows) {
  const fs::path file = folder / "preprocessor_config.json";
  std::error_code none;
  const Config c =
      fs::exists(file, none) ? Config::in(file) : Config(Config::Json::object(), file.string());
  const bool normalises = c.flag("do_normalize", true);
  const float half = normalises ? 0.5f : 0.0f;
  rows.mean = numbers_in(c, "image_mean", half, rows.plan.channels);
  rows.deviation = numbers_in(c, "image_std", normalises ? 0.5f : 1.0f, rows.plan.channels);
  if (std::any_of(rows.deviation.begin(), rows.deviation.end(), [](float x) { return !(x > 0); })) {
    c.refuse("image_std", "expected numbers above 0");
  }
}

Tensor curved_by(HeadPlan::Curve curve, const Tensor& x) {
  using Curve = HeadPlan::Curve;
  switch (curve) {
    case Curve::none:
      return x;
    case Curve::tanh:
      return tanh(x);
    case Curve::relu:
      return relu(x);
    case Curve::gelu:
      return gelu(x);
    case Curve::gelu_tanh:
      return gelu_tanh(x);
  }
  return x;
}

// Configs have ids that the model has no row for, as a tokenizer's that was made smaller.
void keep_ids(Generation& g, int64_t vocabulary) {
  const auto beyond = [=](int64_t id) { return id < 0 || id >= vocabulary; };
  std::erase_if(g.ends, beyond);
  std::erase_if(g.never, beyond);
  if (g.begin && beyond(*g.begin)) g.begin.reset();
  if (g.first && beyond(*g.first)) g.first.reset();
}

}  // namespace

void refuse_odd(const Config& c, const fs::path& folder) {
  if (c.has("quantization_config")) {
    c.refuse("quantization_config", "and only weights as plain numbers are read: F32, F16 or BF16");
  }
  if (c.has("auto_map")) {
    c.refuse("auto_map", "which says that the model is a program in the folder: it is not run");
  }
  std::error_code none;
  if (fs::exists(folder / "adapter_config.json", none)) {
    throw Error("open", fmt::format("{} is an adapter, not a model: merge it into its model first, "
                                    "by peft's merge_and_unload()",
                                    folder.string()));
  }
}

std::vector<std::string> classes_in(const Config& c, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("LABEL_{}", i));
  const std::optional<Config> labels = c.object("id2label");
  if (!labels) return names;
  for (int64_t i = 0; i < count; ++i) {
    names[static_cast<size_t>(i)] = labels->text(std::to_string(i), names[static_cast<size_t>(i)]);
  }
  return names;
}

CheckpointInfo about(const fs::path& path, KeptAs kept) { return opening(path, kept).about; }

Checkpoint open(const fs::path& path, KeptAs kept) {
  Opening o = opening(path, kept);
  check_room("open", "the model in " + path.string(), o.about.memory_bytes, "what else runs here");
  const NoGrad off;
  MadeTensors made = read(o.stored, o.plan.recipe, o.about.kept);
  release_memory();  // of what was read to be turned or narrowed
  tie_equal(made.tensors, o.plan);
  if (made.cost.all > 0) o.about.lost = std::sqrt(made.cost.lost / made.cost.all);
  o.about.network = o.plan.network;
  Built b = build(o.plan, nn::Weights::given(std::move(made.tensors)));
  if (b.picture) read_preprocessing(o.about.folder, *b.picture);
  Checkpoint c{.about = std::move(o.about),
               .model = std::move(b.model),
               .head = std::move(b.head),
               .picture = std::move(b.picture)};
  c.generation = generation_in(c.about.folder, o.config);
  keep_ids(c.generation, c.model.config.target_vocabulary);
  return c;
}

// [R,C,Y,X] → rows of patches [R, places, C·p·p], places row by row.
Tensor PictureRows::operator()(const Tensor& pictures) const {
  const int64_t R = pictures.size(0), C = pictures.size(1), p = plan.patch;
  const int64_t across = plan.side / p;
  const Tensor cut = pictures.reshape({R, C, across, p, across, p})
                         .permute({0, 2, 4, 1, 3, 5})
                         .reshape({R, across * across, C * p * p});
  const Tensor first = tokens.unsqueeze(0).expand({R, tokens.size(0), tokens.size(1)});
  return concatenate({first, patches(cut)}, 1);
}

Tensor said(const Head& head, Purpose purpose, const Tensor& rows) {
  Tensor x = purpose == Purpose::fills ? rows : rows.select(1, 0);
  if (head.plan.dense > 0) x = curved_by(head.plan.curve, head.dense(x));
  if (head.plan.norm) x = head.norm(x);
  const Tensor y = head.out(x);
  return head.plan.second ? (y + head.second(rows.select(1, 1))) * 0.5f : y;
}

Tensor said_of(const Checkpoint& c, const Tensor& ids, const Tensor& lengths) {
  if (!c.head) throw Error("read", "this model is no encoder with an output");
  return said(*c.head, c.about.purpose, models::encode(c.model, ids, lengths));
}

}  // namespace fovea::checkpoints
