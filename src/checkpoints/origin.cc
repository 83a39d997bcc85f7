#include "checkpoints/origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoints/checkpoint.h"
#include "checkpoints/folder.h"
#include "core/memory_available.h"
#include "fovea/device.h"
#include "fovea/error.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "io/folder.h"
#include "io/json.h"
#include "tensor/impl.h"

namespace fovea::checkpoints {
namespace {

namespace fs = std::filesystem;
using Json = Config::Json;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kListFile = "tensors.json";
constexpr const char* kOutput = "lm_head.weight";

// What else a model's folder has that says how it is used.
constexpr const char* kFiles[] = {"generation_config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "vocab.txt",
                                  "vocab.json",
                                  "merges.txt",
                                  "source.spm",
                                  "target.spm",
                                  "tokenizer.model",
                                  "spiece.model",
                                  "preprocessor_config.json",
                                  "chat_template.jinja"};

bool is_same_set(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

std::map<std::string, Shape> shapes_in(const StoredTensors& stored) {
  std::map<std::string, Shape> all;
  for (const std::string& name : stored.names()) all[name] = *stored.shape_of(name);
  return all;
}

Shape shape_of(const TensorRecipe& from) {
  return from.shape.empty() ? shape_of(from.parts) : from.shape;
}

std::string key_of_parts(const TensorRecipe& from) {
  std::vector<std::string> names;
  for (const StoredPart& part : from.parts) names.push_back(part.name);
  return fmt::format("{}", fmt::join(names, "\n"));
}

bool same_numbers(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(raw(a), raw(a) + a.numel(), raw(b));
}

}  // namespace

bool is_of_origin(const std::string& file) {
  return file == kConfigFile || file == kListFile ||
         std::find(std::begin(kFiles), std::end(kFiles), file) != std::end(kFiles);
}

Origin::Origin(Config config, fs::path folder)
    : config_(std::move(config)),
      folder_(std::move(folder)),
      architecture_(&architecture(config_)) {}

Origin Origin::of(const fs::path& model) {
  const fs::path folder = folder_of(model);
  Origin o(Config::in(folder / kConfigFile), folder);
  refuse_odd(o.config_, folder);
  o.weight_files_ = weight_files(folder);
  o.listed_ = shapes_in(StoredTensors(o.weight_files_, o.architecture_->prefix));
  o.plan_by_list();
  o.check_parts();
  return o;
}

Origin Origin::of(const fs::path& model, const WantedModel& wanted) {
  const fs::path folder = folder_of(model);
  Origin o(Config::in(folder / kConfigFile), folder);
  refuse_odd(o.config_, folder);
  o.weight_files_ = weight_files(folder);
  o.listed_ = shapes_in(StoredTensors(o.weight_files_, o.architecture_->prefix));
  o.want(wanted);
  o.check_parts();
  o.tie_as_config_says();
  return o;
}

Origin Origin::made(const Json& config, const std::map<std::string, Shape>& listed) {
  Origin o(Config(config, "config.json"), {});
  o.listed_ = listed;
  o.plan_by_list();
  for (const auto& [ours, from] : o.plan_.recipe) {
    for (const StoredPart& part : from.parts) {
      if (!listed.contains(part.name)) {
        o.listed_[o.architecture_->prefix + part.name] = part.shape;
      }
    }
  }
  return o;
}

Origin Origin::kept_in(const fs::path& folder) {
  Origin o(Config::in(folder / kConfigFile), folder);
  constexpr size_t kMostTensors = 1'000'000;
  const fs::path file = folder / kListFile;
  const Json list = read_json(file, {.names = kMostTensors});
  for (const auto& [name, sizes] : list.items()) {
    Shape& shape = o.listed_[name];
    if (!sizes.is_array()) throw Error("open", file.string() + ": expected shapes by name");
    for (const Json& size : sizes) shape.push_back(whole_number(size));
  }
  o.plan_by_list();
  o.check_parts();
  return o;
}

void Origin::plan_by_list() {
  plan_ = architecture_->plan(config_, StoredTensors(listed_, architecture_->prefix));
}

bool Origin::is_passed_by(const std::string& name) const {
  return std::any_of(plan_.passed_by.begin(), plan_.passed_by.end(),
                     [&](const std::string& end) { return name.ends_with(end); });
}

void Origin::check_parts() const {
  check(StoredTensors(listed_, architecture_->prefix), plan_.recipe,
        [&](const std::string& name) { return is_passed_by(name); });
}

// Two that are stored apart and are the same are learned as one, unless the config says otherwise.
void Origin::tie_as_config_says() {
  if (!plan_.recipe.contains("output.weight") || !config_.flag("tie_word_embeddings", true)) return;
  const StoredTensors stored(weight_files_, architecture_->prefix);
  const Recipe both = {{"output.weight", plan_.recipe.at("output.weight")},
                       {"target.weight", plan_.recipe.at("target.weight")}};
  const Tensors read = checkpoints::read(stored, both, KeptAs::float32).tensors;
  if (!same_numbers(read.at("output.weight"), read.at("target.weight"))) return;
  listed_.erase(stored.name_of(kOutput));
  plan_by_list();
}

void Origin::want(const WantedModel& wanted) {
  const auto refuse_kind = [&](Purpose is) {
    throw Error("train", fmt::format("--from {}: {} {}, and what is trained here {}",
                                     folder_.string(), title(), checkpoints::name_of(is),
                                     checkpoints::name_of(wanted.purpose)));
  };
  if (wanted.purpose != Purpose::tells) {
    plan_by_list();
    if (plan_.purpose != wanted.purpose) refuse_kind(plan_.purpose);
    return;
  }
  if (architecture_->for_classes.empty()) {
    plan_by_list();
    refuse_kind(plan_.purpose);
  }
  Json json = config_.json();
  json["architectures"] = {architecture_->for_classes};
  const Config for_classes(json, config_.file());
  plan_ = architecture_->plan(for_classes, StoredTensors(listed_, architecture_->prefix));
  const std::vector<std::string> told = classes_in(for_classes, plan_.head->out);
  const StoredTensors before(listed_, architecture_->prefix);
  const bool fits = is_same_set(told, wanted.classes) &&
                    before.has(plan_.recipe.at("head.out.weight").parts[0].name);
  if (!fits) {
    for (const char* ours : {"head.out.weight", "head.out.bias"}) {
      for (const StoredPart& part : plan_.recipe.at(ours).parts)
        listed_.erase(before.name_of(part.name));
    }
    json["id2label"] = Json::object();
    json["label2id"] = Json::object();
    for (size_t k = 0; k < wanted.classes.size(); ++k) {
      json["id2label"][std::to_string(k)] = wanted.classes[k];
      json["label2id"][wanted.classes[k]] = k;
    }
    json.erase("num_labels");
    json["problem_type"] = "single_label_classification";
  }
  config_ = Config(json, config_.file());
  plan_by_list();
  add_fresh();
}

// What a new head has is listed as if it were stored. It makes an encoder by itself the inner part
// of a model.
void Origin::add_fresh() {
  const StoredTensors list(listed_, architecture_->prefix);
  for (const auto& [ours, from] : plan_.recipe) {
    const bool there = std::all_of(from.parts.begin(), from.parts.end(),
                                   [&](const StoredPart& p) { return list.has(p.name); });
    if (!there && ours.starts_with("head.")) fresh_.insert(ours);
  }
  if (fresh_.empty()) return;
  const std::string& prefix = architecture_->prefix;
  const bool bare = std::none_of(listed_.begin(), listed_.end(),
                                 [&](const auto& t) { return t.first.starts_with(prefix); });
  std::map<std::string, Shape> whole;
  for (const auto& [name, shape] : listed_) {
    if (!is_passed_by(name)) whole[bare ? prefix + name : name] = shape;
  }
  for (const std::string& ours : fresh_) {
    for (const StoredPart& part : plan_.recipe.at(ours).parts) whole[part.name] = part.shape;
  }
  listed_ = std::move(whole);
  plan_by_list();
}

std::vector<fs::path> Origin::files() const {
  std::vector<fs::path> all;
  std::error_code none;
  for (const char* name : kFiles) {
    if (!folder_.empty() && fs::is_regular_file(folder_ / name, none)) {
      all.push_back(folder_ / name);
    }
  }
  return all;
}

void Origin::keep_in(const fs::path& folder) const {
  make_folder("train", folder);
  std::error_code error;
  for (const fs::path& file : files()) {
    if (!error) fs::copy_file(file, folder / file.filename(), error);
  }
  if (error) throw Error("train", fmt::format("{}: {}", folder.string(), error.message()));
  Json list = Json::object();
  for (const auto& [name, shape] : listed_) list[name] = shape;
  write_json(folder / kListFile, list);
  write_json(folder / kConfigFile, config_.json());
}

std::vector<std::string> Origin::classes() const {
  return plan_.head ? classes_in(config_, plan_.head->out) : std::vector<std::string>();
}

Generation Origin::generation() const { return generation_in(folder_, config_); }

Tensors Origin::weights(uint64_t seed) const {
  const NoGrad off;
  Recipe stored = plan_.recipe;
  int64_t bytes = 0;
  for (const auto& [ours, from] : plan_.recipe) {
    for (const StoredPart& part : from.parts) {
      int64_t n = sizeof(float);
      for (const int64_t size : part.shape) n *= size;
      bytes += n;
    }
    if (fresh_.contains(ours)) stored.erase(ours);
  }
  check_room("train", "the model in " + folder_.string(), bytes, "what else runs here");
  Tensors all =
      read(StoredTensors(weight_files_, architecture_->prefix), stored, KeptAs::float32).tensors;
  nn::Weights drawn(seed);
  for (const std::string& ours : fresh_) {
    const Shape shape = shape_of(plan_.recipe.at(ours));
    all[ours] = drawn.add(ours, shape, shape.size() > 1 ? nn::Init::small : nn::Init::zeros)
                    .detach()
                    .contiguous();
  }
  // Those that are one tensor are one on a device, too.
  std::map<const void*, Tensor> moved;
  for (auto& [ours, t] : all) {
    Tensor& there = moved[t.impl()];
    if (!there) there = t.to(DType::f32).contiguous().to(default_device());
    t = there;
  }
  return all;
}

Tensors Origin::blank() const {
  Tensors all;
  std::map<std::string, Tensor> shared;
  for (const auto& [ours, from] : plan_.recipe) {
    if (from.computed) {
      all[ours] = from.computed();
      continue;
    }
    if (!is_plain(from)) {
      all[ours] = Tensor::zeros(shape_of(from));
      continue;
    }
    Tensor& one = shared[key_of_parts(from)];
    if (!one) one = Tensor::zeros(shape_of(from));
    all[ours] = one;
  }
  return all;
}

Tensors Origin::theirs(const Tensors& ours) const {
  const StoredTensors list(listed_, architecture_->prefix);
  Tensors named;
  for (auto& [name, t] : taken_apart(ours, plan_.recipe)) named[list.name_of(name)] = t;
  return named;
}

}  // namespace fovea::checkpoints
