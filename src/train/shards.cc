#include "train/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensor/impl.h"
#include "train/weights.h"

namespace fovea::train {
namespace {

using team::Bytes;
using team::ConstBytes;

constexpr int64_t kBlock = 1 << 14;                        // as kernels::squared_norm() has it
constexpr int64_t kBucketBytes = int64_t{4} << 20;         // that a rank sends at once …
constexpr int64_t kLeastMessageBytes = int64_t{64} << 10;  // … and to each of many ranks

Bytes bytes_of(float* x, int64_t n) {
  return std::as_writable_bytes(std::span(x, static_cast<size_t>(n)));
}

}  // namespace

std::vector<PartialSum> shape_of_parts(int64_t first, int64_t end) {
  TreeSum sum;
  for (int64_t b = first; b < end; ++b) sum.add({b, 0, {}});
  return sum.parts();
}

// ---- Who owns what -----------------------------------------------------------------------------

Shards::Shards(team::Team& team, Tensors weights) : team_(team), weights_(std::move(weights)) {
  if (team_.size() == 1) {
    own_ = weights_;
    return;
  }
  for (const auto& [name, tensor] : weights_) {
    if (tensor.device() == Device::cpu) continue;
    throw Error("train", fmt::format("several processes train on the CPU alone, '{}' is on {}",
                                     name, name_of(tensor.device())));
  }
  cut();
  out_.resize(slices_.size());
  in_.resize(slices_.size());
  for (const TensorRange& run : slices_[static_cast<size_t>(team_.rank())].runs) {
    own_[run.name] = weights_.at(run.name).detach().reshape({-1}).slice(0, run.at, run.at + run.n);
  }
}

// A block is of the rank in whose share of all numbers it begins.
void Shards::cut() {
  int64_t all = 0, at = 0;
  for (const auto& [name, tensor] : weights_) all += tensor.numel();
  slices_.resize(static_cast<size_t>(team_.size()));
  for (const auto& [name, tensor] : weights_) {
    for (int64_t i = 0; i < tensor.numel(); i += kBlock) {
      const int64_t n = std::min(kBlock, tensor.numel() - i);
      Slice& slice = slices_[static_cast<size_t>(at * team_.size() / all)];
      if (!slice.runs.empty() && slice.runs.back().name == name) {
        slice.runs.back().n += n;
      } else {
        slice.runs.push_back({name, i, n});
      }
      slice.numbers += n;
      at += n;
    }
  }
}

// ---- In buckets --------------------------------------------------------------------------------

int64_t Shards::bucket() const {
  return std::max(kBucketBytes / team_.size(), kLeastMessageBytes) / int64_t{sizeof(float)};
}

int64_t Shards::buckets() const {
  int64_t most = 0;
  for (const Slice& s : slices_) most = std::max(most, s.numbers);
  return (most + bucket() - 1) / bucket();
}

std::vector<Shards::Slice> Shards::in_bucket(int64_t k) const {
  const int64_t begin = k * bucket(), end = begin + bucket();
  std::vector<Slice> parts;
  for (const Slice& slice : slices_) {
    Slice& part = parts.emplace_back();
    int64_t at = 0;
    for (const TensorRange& run : slice.runs) {
      const int64_t from = std::max(begin, at), to = std::min(end, at + run.n);
      if (from < to) {
        part.runs.push_back({run.name, run.at + from - at, to - from});
        part.numbers += to - from;
      }
      at += run.n;
    }
  }
  return parts;
}

// ---- Gradients ---------------------------------------------------------------------------------

// −0 is what adds nothing: −0 + x is x, whatever x is.
void Shards::pack(const PartialSum& part, const Slice& piece, float* to) {
  for (const TensorRange& run : piece.runs) {
    const auto found = part.values.find(run.name);
    if (found == part.values.end()) {
      to = std::fill_n(to, run.n, -0.0f);
    } else {
      to = std::copy_n(raw(found->second) + run.at, run.n, to);
    }
  }
}

// Where all of it lies in one place already, it is sent from there.
ConstBytes Shards::to_send(const std::vector<PartialSum>& parts, const Slice& piece,
                           std::vector<float>& buffer) {
  if (parts.size() == 1 && piece.runs.size() == 1) {
    const TensorRange& run = piece.runs.front();
    const auto found = parts.front().values.find(run.name);
    if (found != parts.front().values.end()) return bytes_of(raw(found->second) + run.at, run.n);
  }
  buffer.resize(parts.size() * static_cast<size_t>(piece.numbers));
  for (size_t p = 0; p < parts.size(); ++p) {
    pack(parts[p], piece, buffer.data() + p * static_cast<size_t>(piece.numbers));
  }
  return std::as_bytes(std::span(buffer));
}

// A tree adds to its leftmost part, the first rank's first, which therefore comes to `own`.
void Shards::sum_bucket(const std::vector<PartialSum>& parts, int64_t batches, int64_t k,
                        Tensor& own) {
  const size_t ranks = slices_.size(), me = static_cast<size_t>(team_.rank());
  const std::vector<Slice> pieces = in_bucket(k);
  const int64_t n = pieces[me].numbers;
  float* const sum_here = raw(own) + k * bucket();
  std::vector<std::vector<PartialSum>> shapes(ranks);
  std::vector<ConstBytes> send(ranks);
  std::vector<Bytes> received(ranks);
  const auto place = [&](size_t r, size_t p) {
    const bool one_there = r == 0 && p == 0 && (me == 0 || shapes[0].size() == 1);
    return one_there ? sum_here : in_[r].data() + p * static_cast<size_t>(n);
  };
  for (size_t r = 0; r < ranks; ++r) {
    const int64_t of = static_cast<int64_t>(r), all = static_cast<int64_t>(ranks);
    shapes[r] =
        shape_of_parts(first_of_share(batches, of, all), first_of_share(batches, of + 1, all));
    in_[r].resize(shapes[r].size() * static_cast<size_t>(n));
    if (r == me) {
      for (size_t p = 0; p < parts.size(); ++p) pack(parts[p], pieces[me], place(r, p));
    } else {
      send[r] = to_send(parts, pieces[r], out_[r]);
      if (!shapes[r].empty()) {
        received[r] = bytes_of(place(r, 0), static_cast<int64_t>(in_[r].size()));
      }
    }
  }
  team_.exchange(send, received);
  if (n == 0) return;
  TreeSum sum;
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t p = 0; p < shapes[r].size(); ++p) {
      shapes[r][p].values["x"] = Tensor::borrow(place(r, p), {n}, {1}, nullptr);
      sum.add(std::move(shapes[r][p]));
    }
  }
  const Tensor total = sum.total().at("x");
  if (raw(total) != sum_here) std::copy_n(raw(total), n, sum_here);
}

std::vector<uint8_t> Shards::present_anywhere(const std::vector<PartialSum>& parts) const {
  std::string mine;
  for (const auto& weight : weights_) {
    mine +=
        std::ranges::any_of(parts, [&](const auto& p) { return p.values.contains(weight.first); });
  }
  std::vector<uint8_t> any(mine.size());
  for (const std::string& one : team::gather(team_, mine)) {
    for (size_t i = 0; i < any.size(); ++i) any[i] |= static_cast<uint8_t>(one[i]);
  }
  return any;
}

void Shards::set_gradients(const Tensor& sum, const std::vector<uint8_t>& present) {
  int64_t at = 0;
  size_t i = 0;
  for (const auto& [name, tensor] : weights_) {
    const bool has_gradient = present[i++] != 0;
    const auto found = own_.find(name);
    if (found == own_.end()) continue;
    const int64_t n = found->second.numel();
    if (has_gradient) {
      found->second.set_grad(sum.slice(0, at, at + n));
    } else {
      found->second.zero_grad();
    }
    at += n;
  }
}

void Shards::sum(std::vector<PartialSum> parts, int64_t batches) {
  if (team_.size() == 1) {
    TreeSum all;
    for (PartialSum& part : parts) all.add(std::move(part));
    for (const auto& [name, tensor] : all.total()) Tensor(own_.at(name)).set_grad(tensor);
    return;
  }
  const NoGrad off;
  Tensor own = Tensor::empty({slices_[static_cast<size_t>(team_.rank())].numbers});
  for (int64_t k = 0; k < buckets(); ++k) sum_bucket(parts, batches, k, own);
  set_gradients(own, present_anywhere(parts));
}

// Block by block, added in their order: what one process adds in one call.
double Shards::squared_norm() const {
  const kernels::Kernels& kernels = device_of("train", own_);
  if (team_.size() == 1) return kernels.squared_norm(gradients_of(own_));
  std::string sums;
  for (const kernels::Values& all : gradients_of(own_)) {
    for (int64_t at = 0; at < all.n; at += kBlock) {
      const kernels::Values block{all.data + at, std::min(kBlock, all.n - at)};
      const double sum = kernels.squared_norm({&block, 1});
      sums.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    }
  }
  double total = 0;
  for (const std::string& of_rank : team::gather(team_, sums)) {
    for (size_t i = 0; i < of_rank.size(); i += sizeof(double)) {
      double sum = 0;
      std::copy_n(of_rank.data() + i, sizeof(sum), reinterpret_cast<char*>(&sum));
      total += sum;
    }
  }
  return total;
}

// ---- Values ------------------------------------------------------------------------------------

void Shards::share() {
  if (team_.size() == 1) return;
  const size_t me = static_cast<size_t>(team_.rank());
  const std::vector<PartialSum> mine{{.values = weights_}};
  for (int64_t k = 0; k < buckets(); ++k) {
    const std::vector<Slice> pieces = in_bucket(k);
    std::vector<ConstBytes> send(pieces.size(), to_send(mine, pieces[me], out_[me]));
    std::vector<Bytes> received(pieces.size());
    send[me] = {};
    for (size_t r = 0; r < pieces.size(); ++r) {
      if (r == me || pieces[r].runs.empty()) continue;
      if (pieces[r].runs.size() == 1) {
        const TensorRange& run = pieces[r].runs.front();
        received[r] = bytes_of(changed(weights_.at(run.name)) + run.at, run.n);
        continue;
      }
      in_[r].resize(static_cast<size_t>(pieces[r].numbers));
      received[r] = std::as_writable_bytes(std::span(in_[r]));
    }
    team_.exchange(send, received);
    for (size_t r = 0; r < pieces.size(); ++r) {
      if (r == me || pieces[r].runs.size() < 2) continue;
      const float* from = in_[r].data();
      for (const TensorRange& run : pieces[r].runs) {
        std::copy_n(from, run.n, changed(weights_.at(run.name)) + run.at);
        from += run.n;
      }
    }
  }
}

Tensor Shards::whole(const std::string& name, const Tensors& pieces) {
  if (team_.size() == 1) return pieces.at(name);
  Tensor all;
  if (team_.is_first()) all = Tensor::empty(weights_.at(name).shape());
  std::vector<ConstBytes> send(slices_.size());
  std::vector<Bytes> received(slices_.size());
  for (size_t r = 0; r < slices_.size(); ++r) {
    const auto run = std::ranges::find(slices_[r].runs, name, &TensorRange::name);
    if (run == slices_[r].runs.end()) continue;
    if (static_cast<int>(r) == team_.rank()) send[0] = bytes_of(raw(pieces.at(name)), run->n);
    if (team_.is_first()) received[r] = bytes_of(raw(all) + run->at, run->n);
  }
  team_.exchange(send, received);
  return all;
}

void Shards::deal(const Tensors& whole, const Tensors& pieces) {
  const NoGrad off;
  if (team_.size() == 1) return copy_values(whole, pieces, "the state");
  for (size_t r = 0; r < slices_.size(); ++r) {
    const bool mine = static_cast<int>(r) == team_.rank();
    for (const TensorRange& run : slices_[r].runs) {
      std::vector<ConstBytes> send(slices_.size());
      std::vector<Bytes> received(slices_.size());
      if (team_.is_first()) send[r] = bytes_of(raw(whole.at(run.name)) + run.at, run.n);
      if (mine) received[0] = bytes_of(changed(pieces.at(run.name)), run.n);
      team_.exchange(send, received);
    }
  }
}

void Shards::spread(const Tensors& values) {
  if (team_.size() == 1) return;
  for (const auto& [name, tensor] : values)
    team_.broadcast(bytes_of(changed(tensor), tensor.numel()));
}

}  // namespace fovea::train
