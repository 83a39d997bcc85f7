// The same call on the CPU and on the GPU.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "case.h"
#include "kernels/open.h"

namespace fovea::test {
namespace {

using kernels::AttentionGradients;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::View;

constexpr int64_t kAround = 64;  // numbers before and behind every output, which stay as they are

// Outputs in the layout of the inputs.
struct Buffers {
  explicit Buffers(const Numbers& numbers) : n(numbers) {
    const AttentionProblem& p = n.problem;
    add(context, p.rows() * p.Dv);
    add(stat, p.rows());
    add(dq, p.rows() * p.D);
    add(dk, p.B * p.Hk * p.Lk * p.D);
    add(dv, p.B * p.Hk * p.Lk * p.Dv);
    add(du, static_cast<int64_t>(n.u.size()));
    add(dsink, n.sink.empty() ? 0 : p.rows());
    add(dbias, static_cast<int64_t>(n.bias.size()));
    std::fill(dbias.begin() + kAround, dbias.end() - kAround, 0.0f);
  }
  static void add(std::vector<float>& x, int64_t size) { x.assign(size + 2 * kAround, kUnwritten); }

  static constexpr float kUnwritten = 1.2345e33f;
  const Numbers& n;
  std::vector<float> context, stat, dq, dk, dv, du, dbias, dsink;
};

// The pointers of a call, by a function that says where a host vector's numbers are.
using Where = std::function<void*(const void*, size_t)>;

struct Call {
  AttentionProblem p;
  AttentionResult out;
  AttentionGradients g;

  Call(const Numbers& n, Buffers& to, const Where& where) : p(n.problem) {
    const Case& c = n.what;
    const auto moved = [&](auto view, const auto& owner) {
      if (!view.data) return view;
      using T = typename std::remove_reference_t<decltype(owner)>::value_type;
      const auto offset = view.data - owner.data();
      view.data = static_cast<T*>(where(owner.data(), owner.size() * sizeof(T))) + offset;
      return view;
    };
    const auto at = [&](std::vector<float>& x) {
      return static_cast<float*>(where(x.data(), x.size() * sizeof(float))) + kAround;
    };
    const auto input = [&](const std::vector<float>& x) -> const float* {
      if (x.empty()) return nullptr;
      return static_cast<const float*>(where(x.data(), x.size() * sizeof(float)));
    };
    p.q = moved(p.q, n.q);
    p.k = moved(p.k, n.k);
    p.v = moved(p.v, n.v);
    p.u = input(n.u);
    p.begin = moved(p.begin, n.begin);
    p.end = moved(p.end, n.end);
    p.allowed = moved(p.allowed, n.allowed);
    p.bias = moved(p.bias, n.bias);
    p.sink = input(n.sink);
    out.context = view_of(at(to.context), {p.B, p.H, p.Lq, p.Dv}, c);
    out.stat = at(to.stat);
    g.context = {out.context.data, out.context.b, out.context.h, out.context.r, out.context.c};
    g.d_context = moved(n.d_context_view, n.d_context);
    g.stat = out.stat;
    g.d_stat = input(n.d_stat);
    g.dq = view_of(at(to.dq), {p.B, p.H, p.Lq, p.D}, c);
    g.dk = view_of(at(to.dk), {p.B, p.Hk, p.Lk, p.D}, c);
    g.dv = view_of(at(to.dv), {p.B, p.Hk, p.Lk, p.Dv}, c);
    if (!n.u.empty()) g.du = at(to.du);
    if (p.sink) g.dsink = at(to.dsink);
    if (p.bias) {
      const auto offset = n.problem.bias.data - n.bias.data();
      g.dbias = {at(to.dbias) + offset, p.bias.b, p.bias.h, p.bias.r, p.bias.c};
      g.dbias_low = -offset;
      g.dbias_span = static_cast<int64_t>(n.bias.size());
    }
  }
};

std::vector<double> in_order(const std::vector<float>& x, const Shape& s, const Case& c) {
  std::vector<double> all;
  all.reserve(s.size());
  const View<float> v = view_of(const_cast<float*>(x.data()) + kAround, s, c);
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      for (int64_t r = 0; r < s.R; ++r) {
        for (int64_t i = 0; i < s.C; ++i) all.push_back(v.row(b, h, r)[i * v.c]);
      }
    }
  }
  return all;
}

std::vector<double> plain(const std::vector<float>& x) {
  return {x.begin() + kAround, x.end() - kAround};
}

Outputs outputs_of(const Buffers& x) {
  const AttentionProblem& p = x.n.problem;
  const Case& c = x.n.what;
  for (const auto* v : {&x.context, &x.stat, &x.dq, &x.dk, &x.dv, &x.du, &x.dbias, &x.dsink}) {
    for (size_t i = 0; i < v->size(); ++i) {
      const bool around = i < kAround || i >= v->size() - kAround;
      if (((*v)[i] == Buffers::kUnwritten) != around) {
        throw std::runtime_error(around ? "something was written beside an output"
                                        : "a number was not written");
      }
    }
  }
  return {.context = in_order(x.context, {p.B, p.H, p.Lq, p.Dv}, c),
          .stat = plain(x.stat),
          .dq = in_order(x.dq, {p.B, p.H, p.Lq, p.D}, c),
          .dk = in_order(x.dk, {p.B, p.Hk, p.Lk, p.D}, c),
          .dv = in_order(x.dv, {p.B, p.Hk, p.Lk, p.Dv}, c),
          .du = plain(x.du),
          .dbias = plain(x.dbias),
          .dsink = plain(x.dsink)};
}

}  // namespace

Outputs by_cpu(const Numbers& n) {
  Buffers to(n);
  const Call call(n, to, [](const void* host, size_t) { return const_cast<void*>(host); });
  kernels::attention_forward(call.p, call.out);
  kernels::attention_backward(call.p, call.g);
  return outputs_of(to);
}

Outputs by_gpu(const Numbers& n, const std::string& path) {
  const cuda::Module& gpu = cuda::open_module();
  setenv("FOVEA_CUDA_PATH", path.c_str(), 1);
  Buffers to(n);
  struct Copy {
    void* device;
    size_t bytes;
  };
  std::unordered_map<const void*, Copy> copies;
  const Call call(n, to, [&](const void* host, size_t bytes) {
    auto [found, added] = copies.try_emplace(host, Copy{nullptr, bytes});
    if (added) {
      found->second.device = gpu.allocate(bytes);
      gpu.upload(found->second.device, host, bytes);
    }
    return found->second.device;
  });
  gpu.attention_forward(call.p, call.out);
  gpu.attention_backward(call.p, call.g);
  for (std::vector<float>* x :
       {&to.context, &to.stat, &to.dq, &to.dk, &to.dv, &to.du, &to.dbias, &to.dsink}) {
    const auto found = copies.find(x->data());
    if (found != copies.end()) gpu.download(x->data(), found->second.device, found->second.bytes);
  }
  for (const auto& [host, copy] : copies) gpu.give_back(copy.device);
  return outputs_of(to);
}

}  // namespace fovea::test
