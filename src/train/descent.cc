#include "train/descent.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/random.h"
#include "tensor/impl.h"
#include "train/shared.h"
#include "train/weights.h"

namespace fovea::train {
namespace {

// What a batch draws its random numbers from; draws count from 1, over all steps.
uint64_t seed_of_draw(uint64_t seed, uint64_t draw) {
  const RandomKey key = random_key(seed, Purpose::dropout, draw);
  return static_cast<uint64_t>(key.b) << 32 | key.a;
}

void expect_finite(const char* what, double value) {
  if (!std::isfinite(value)) throw NotFinite(what, value);
}

struct FreeGradients {
  explicit FreeGradients(const Tensors& of) : weights(of) { now(); }
  ~FreeGradients() { now(); }
  FreeGradients(const FreeGradients&) = delete;
  FreeGradients& operator=(const FreeGradients&) = delete;
  void now() const {
    for (const auto& [name, tensor] : weights) Tensor(tensor).zero_grad();
  }
  const Tensors& weights;
};

Tensors copies_of(const Tensors& all) {
  Tensors copies;
  for (const auto& [name, tensor] : all) copies.emplace(name, tensor.detach().clone());
  return copies;
}

void put(const Tensors& values, const Tensors& into) {
  const NoGrad off;
  for (const auto& [name, tensor] : values) Tensor(into.at(name)).copy_(tensor);
}

std::string bytes_of(const Tensors& all) {
  std::string bytes;
  for (const auto& [name, tensor] : all) {
    bytes.append(reinterpret_cast<const char*>(raw(tensor)),
                 static_cast<size_t>(tensor.numel()) * sizeof(float));
  }
  return bytes;
}

uint64_t hash_of(uint64_t hash, const std::vector<float>& numbers) {
  for (const float x : numbers) {
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    hash = mix64(hash ^ bits);
  }
  return hash;
}

}  // namespace

NotFinite::NotFinite(const char* what, double value)
    : Error("train", fmt::format("{} is {}", what, value)) {}

Descent::Descent(Learner& learner, const TrainConfig& config, team::Team& team)
    : learner_(learner),
      config_(config),
      team_(team),
      weights_(distinct("train", learner.parameters)),
      shards_(team, weights_),
      optimizer_(config.optimizer, shards_.own()),
      average_(team.size() == 1 ? learner.parameters : shards_.own(), config.average) {}

// ---- A step ------------------------------------------------------------------------------------

// Gradients of sums where batches add up, so that a unit weighs the same in each; of the mean where
// a step is one batch.
StepLoss Descent::backward(std::span<const int64_t> batch, uint64_t seed) const {
  StepLoss l = learner_.loss(batch, seed);
  expect_finite("the loss", l.loss.item());
  expect_finite("the loss", l.total);
  if (config_.batches == 1) {
    l.loss.backward();
  } else {
    l.loss.backward(full_at(l.loss, l.loss.shape(), static_cast<float>(l.count)));
  }
  return {{}, l.total, l.count};
}

uint64_t Descent::seed_of(int64_t number, int64_t batch) const {
  return seed_of_draw(config_.seed,
                      static_cast<uint64_t>((number - 1) * config_.batches + batch + 1));
}

// From this rank's share of a step's batches, all of which begin with the same buffers.
Descent::Learned Descent::learn(Batches batches, int64_t first, int64_t number) const {
  const bool several = config_.batches > 1;
  const Tensors before = several ? copies_of(learner_.buffers) : Tensors();
  Learned l;
  for (const std::vector<int64_t>& batch : batches) {
    put(before, learner_.buffers);
    l.losses.push_back(backward(batch, seed_of(number, first)));
    l.gradients.add({first, 0, taken_gradients(weights_)});
    if (several) l.buffers.add({first, 0, copies_of(learner_.buffers)});
    ++first;
  }
  return l;
}

// What this rank's terms of a batch gave. Gradients that all ranks have whole are of the first.
std::vector<PartialSum> Descent::shared_gradients() const {
  SharedBatches& shared = *learner_.shared;
  const int64_t rank = team_.rank(), ranks = team_.size();
  std::vector<PartialSum> parts = shape_of_parts(first_of_share(shared.terms, rank, ranks),
                                                 first_of_share(shared.terms, rank + 1, ranks));
  for (const auto& [name, tensor] : weights_) {
    const auto found = shared.sums.find(tensor.impl());
    if (found != shared.sums.end()) {
      for (size_t p = 0; p < parts.size(); ++p) parts[p].values.emplace(name, found->second[p]);
    } else if (const Tensor g = tensor.grad(); g && team_.is_first()) {
      parts.front().values.emplace(name, g.contiguous());
    }
    Tensor(tensor).zero_grad();
  }
  shared.sums.clear();
  return parts;
}

// From a step's batches, each computed by all ranks. An error that only one of them has ends the
// others as it ends this one: they may be anywhere within the batch.
void Descent::learn_shared(Batches batches, int64_t number, Taken& taken) {
  const int64_t n = static_cast<int64_t>(batches.size());
  TreeSum sum;
  for (int64_t b = 0; b < n; ++b) {
    const StepLoss l = learner_.loss(batches[static_cast<size_t>(b)], seed_of(number, b));
    expect_finite("the loss", l.total);
    taken.total += l.total;
    taken.count += l.count;
    l.loss.backward();
    shards_.sum(shared_gradients(), learner_.shared->terms);
    if (n > 1) sum.add({b, 0, taken_gradients(shards_.own())});
  }
  for (const auto& [name, tensor] : sum.total()) Tensor(shards_.own().at(name)).set_grad(tensor);
}

// In the order of batches, those of all ranks.
void Descent::add_losses(const std::vector<StepLoss>& own, Taken& taken) const {
  const auto add = [&](double total, double count) {
    taken.total += total;
    taken.count += count;
  };
  if (team_.size() == 1) {
    for (const StepLoss& l : own) add(l.total, l.count);
    return;
  }
  std::string mine;
  for (const StepLoss& l : own) {
    const double numbers[] = {l.total, l.count};
    mine.append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  }
  for (const std::string& all : team::gather(team_, mine)) {
    for (size_t i = 0; i < all.size(); i += 2 * sizeof(double)) {
      double numbers[2];
      std::memcpy(numbers, all.data() + i, sizeof(numbers));
      add(numbers[0], numbers[1]);
    }
  }
}

// The mean of what batches made of the buffers; there are few numbers in them, which all ranks add.
void Descent::set_buffers(std::vector<PartialSum> own, int64_t batches) const {
  const NoGrad off;
  TreeSum sum;
  if (team_.size() == 1) {
    for (PartialSum& part : own) sum.add(std::move(part));
  } else {
    std::string mine;
    for (const PartialSum& part : own) mine += bytes_of(part.values);
    const std::vector<std::string> all = team::gather(team_, mine);
    for (int64_t r = 0; r < team_.size(); ++r) {
      const char* from = all[static_cast<size_t>(r)].data();
      for (PartialSum& part : shape_of_parts(first_of_share(batches, r, team_.size()),
                                             first_of_share(batches, r + 1, team_.size()))) {
        part.values = copies_of(learner_.buffers);
        for (auto& [name, tensor] : part.values) {
          const size_t bytes = static_cast<size_t>(tensor.numel()) * sizeof(float);
          std::memcpy(changed(tensor), from, bytes);
          from += bytes;
        }
        sum.add(std::move(part));
      }
    }
  }
  const float share = 1.0f / static_cast<float>(batches);
  for (auto& [name, tensor] : sum.total()) {
    Tensor(learner_.buffers.at(name)).copy_(Tensor(tensor).mul_(share));
  }
}

// Forward, backward, update:  g = Σ_b count_b·∇loss_b/Σ_b count_b, clipped to the norm that is
// allowed.
Descent::Taken Descent::step(Batches batches, int64_t number, float rate) {
  const FreeGradients before_and_after(weights_);
  const FreeGradients own_too(shards_.own());
  const int64_t n = static_cast<int64_t>(batches.size());
  const int64_t first = first_of_share(n, team_.rank(), team_.size());
  const int64_t end = first_of_share(n, team_.rank() + 1, team_.size());
  Taken taken;
  if (learner_.shared) {
    learn_shared(batches, number, taken);
  } else {
    Learned learned;
    team::together(team_, [&] {
      learned = learn(batches.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)),
                      first, number);
    });
    add_losses(learned.losses, taken);
    shards_.sum(learned.gradients.parts(), n);
    if (config_.batches > 1 && !learner_.buffers.empty()) set_buffers(learned.buffers.parts(), n);
  }

  const bool of_sums = config_.batches > 1 || learner_.shared;
  const double units = of_sums && taken.count > 0 ? taken.count : 1;
  taken.norm = std::sqrt(shards_.squared_norm()) / units;
  expect_finite("the gradient's norm", taken.norm);
  const bool clipped = config_.clip > 0 && taken.norm > config_.clip;
  optimizer_.step(rate, static_cast<float>((clipped ? config_.clip / taken.norm : 1.0) / units));
  average_.update(number);
  shards_.share();
  return taken;
}

std::string Descent::probe(std::span<const int64_t> batch) const {
  const FreeGradients before_and_after(weights_);
  const Tensors before = copies_of(learner_.buffers);
  const StepLoss l = learner_.loss(batch, seed_of_draw(config_.seed, 0));
  uint64_t hash = 0;
  if (learner_.shared) {
    hash = hash_of(0, {static_cast<float>(l.total)});  // their own parts differ
  } else {
    l.loss.backward();
    hash = hash_of(0, l.loss.to_vector());
  }
  put(before, learner_.buffers);
  for (const auto& [name, tensor] : weights_) {
    hash = hash_of(hash, tensor.to_vector());
    if (tensor.grad()) hash = hash_of(hash, tensor.grad().to_vector());
  }
  return fmt::format("{:016x}", hash);
}

// ---- What is kept ------------------------------------------------------------------------------

void Descent::with_averages(const std::function<void()>& f) {
  const auto change_places = [&] {
    if (!average_.on()) return;
    average_.swap();
    shards_.share();
  };
  change_places();
  f();
  change_places();
}

std::vector<const char*> Descent::moments() const {
  if (config_.optimizer.method == Method::sgd) return {"first/"};
  return {"first/", "second/"};
}

namespace {

// Those whose names begin so, by the rest of their names.
Tensors under(const std::string& prefix, const Tensors& all) {
  Tensors found;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace

Streamed Descent::streamed(const std::string& weight, const Tensors& pieces) {
  return {weights_.at(weight), [this, weight, pieces] { return shards_.whole(weight, pieces); }};
}

StreamedTensors Descent::optimizer_state() {
  const Tensors state = optimizer_.state();
  if (team_.size() == 1) return as_they_are(state);
  StreamedTensors all = as_they_are({{"step", state.at("step")}});
  for (const char* moment : moments()) {
    const Tensors pieces = under(moment, state);
    for (const auto& [name, tensor] : weights_) all.emplace(moment + name, streamed(name, pieces));
  }
  return all;
}

void Descent::load_optimizer(const Tensors& whole) {
  if (team_.size() == 1) return optimizer_.load(whole);
  Tensors state = optimizer_.state();  // shares its memory
  int64_t steps = 0;
  team::together(team_, [&] {
    if (!team_.is_first()) return;
    Optimizer expected(config_.optimizer, weights_);
    expected.load(whole);
    steps = whole.at("step").to_ids()[0];
  });
  team_.broadcast(std::as_writable_bytes(std::span(&steps, 1)));
  for (const char* moment : moments()) shards_.deal(under(moment, whole), under(moment, state));
  state["step"] = Tensor::from_ids(std::span(&steps, 1), {});
  optimizer_.load(state);
}

StreamedTensors Descent::averages() {
  if (team_.size() == 1) return as_they_are(average_.values());
  if (!average_.on()) return as_they_are(learner_.parameters);
  std::map<const void*, std::string> names;
  for (const auto& [name, tensor] : weights_) names[tensor.impl()] = name;
  StreamedTensors all;
  for (const auto& [name, tensor] : learner_.parameters) {
    all.emplace(name, streamed(names.at(tensor.impl()), average_.values()));
  }
  return all;
}

void Descent::load_averages(const Tensors& values, const std::string& source) {
  if (!average_.on()) return;
  if (team_.size() == 1) return copy_values(values, average_.values(), source);
  team::together(team_, [&] {
    if (team_.is_first()) expect_like(values, learner_.parameters, source);
  });
  shards_.deal(values, average_.values());
}

}  // namespace fovea::train
