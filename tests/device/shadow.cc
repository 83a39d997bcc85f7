#include "shadow.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/size_class.h"
#include "fovea/error.h"
#include "kernels/attention/refused.h"

namespace fovea::test {
namespace {

using kernels::kCpu;
using kernels::Kernels;
using kernels::View;

constexpr size_t kReserved = size_t{64} << 30, kPage = 4096;

// Memory twice: at the addresses that it hands out nobody may ever read or write; what its calls
// are given lies as far from them as `inside()` says. So a call costs no change of protection. A
// block is whole pages, with one between blocks that is closed to calls too.
class Region {
 public:
  Region() : outside_(reserve()), inside_(reserve()) {}

  bool owns(const void* p) const { return p >= outside_ && p < outside_ + kReserved; }
  bool owns_inside(const void* p) const { return p >= inside_ && p < inside_ + kReserved; }

  // Where a call finds what p points to.
  void* inside(const void* p) const {
    if (!owns(p)) throw Error("shadow", "a call points to memory of the host");
    return inside_ + (static_cast<const std::byte*>(p) - outside_);
  }

  void* take(size_t bytes) {
    const size_t size = (size_class(bytes).bytes + kPage - 1) / kPage * kPage;
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& spare = free_[size];
    std::byte* at = outside_ + used_;
    if (!spare.empty()) {
      at = spare.back();
      spare.pop_back();
    } else {
      if (used_ + size + kPage > kReserved) throw Error("shadow", "out of memory");
      used_ += size + kPage;
      mprotect(inside(at), size, PROT_READ | PROT_WRITE);
    }
    blocks_[at] = size;
    std::memset(inside(at), 0xff, size);  // NaN: what is never written shows
    return at;
  }

  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(block));
    free_[found->second].push_back(found->first);
    blocks_.erase(found);
  }

 private:
  static std::byte* reserve() {
    void* const at =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw Error("shadow", "the system refused address space");
    return static_cast<std::byte*>(at);
  }

  std::byte *const outside_, *const inside_;
  size_t used_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::byte*, size_t> blocks_;  // handed out, and their bytes
  std::unordered_map<size_t, std::vector<std::byte*>> free_;
};

Region& region() {
  static Region* const one = new Region;  // tensors in statics may outlive it
  return *one;
}

void report(int, siginfo_t* info, void*) {
  const bool host = region().owns(info->si_addr);
  if (host || region().owns_inside(info->si_addr)) {
    const std::string_view text = host ? "host code touched memory of the device:\n"
                                       : "a call went beyond what it was given:\n";
    (void)!write(STDERR_FILENO, text.data(), text.size());
    void* frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  }
  std::signal(SIGSEGV, SIG_DFL);  // and fault again
}

// ---- what a call points to ---------------------------------------------------------------------

template <class... P>
void go_inside(P*&... pointers) {
  ((pointers = pointers == nullptr ? nullptr : static_cast<P*>(region().inside(pointers))), ...);
}

template <class T>
void translate(T&) {}  // sizes and numbers
template <class T>
void translate(T*& p) {
  go_inside(p);
}
template <class T>
void translate(View<T>& v) {
  go_inside(v.data);
}
void translate(kernels::Bytes& x) { go_inside(x.data); }
void translate(kernels::Target& x) { go_inside(x.data); }
void translate(kernels::Source& x) { go_inside(x.data); }
void translate(kernels::Gemm& g) { go_inside(g.a, g.b, g.b_scale, g.c, g.bias, g.plus); }
void translate(kernels::Affine& x) { go_inside(x.w, x.b); }
void translate(kernels::Moments& x) { go_inside(x.mean, x.rstd); }
void translate(kernels::Normed& x) { go_inside(x.x, x.at.mean, x.at.rstd, x.dy); }
void translate(kernels::NormGradients& x) { go_inside(x.x, x.w, x.b); }
void translate(kernels::Targets& x) { go_inside(x.ids); }
void translate(kernels::LogSums& x) { go_inside(x.max, x.log); }
void translate(kernels::LossGradient& x) { go_inside(x.d_loss); }
void translate(kernels::HeadRows& x) { go_inside(x.data); }
void translate(kernels::Angles& x) { go_inside(x.cos, x.sin); }
void translate(kernels::CellRows& x) { go_inside(x.active); }
void translate(kernels::RnnStep& x) { go_inside(x.u, x.h, x.h_next); }
void translate(kernels::RnnGradient& x) { go_inside(x.h_next, x.d_out, x.dh_next, x.du, x.dh); }
void translate(kernels::GruStep& x) { go_inside(x.x, x.u, x.h, x.h_next, x.kept); }
void translate(kernels::GruGradient& x) {
  go_inside(x.kept, x.h, x.d_out, x.dh_next, x.dx, x.du, x.dh);
}
void translate(kernels::LstmStep& x) { go_inside(x.u, x.h, x.c, x.h_next, x.c_next, x.kept); }
void translate(kernels::LstmGradient& x) {
  go_inside(x.kept, x.c, x.d_out, x.dh_next, x.dc_next, x.du, x.dh, x.dc);
}
void translate(kernels::Learned& x) { go_inside(x.weight, x.gradient, x.first, x.second); }
void translate(kernels::Values& x) { go_inside(x.data); }
void translate(kernels::Averaged& x) { go_inside(x.average, x.value); }
void translate(kernels::AttentionProblem& p) {
  go_inside(p.q.data, p.k.data, p.v.data, p.u, p.given.data, p.begin.data, p.end.data,
            p.allowed.data, p.bias.data, p.center.data, p.sink);
  if (p.n_conditions == 0) return;
  thread_local std::vector<kernels::Condition> conditions;  // of one call at a time
  go_inside(p.conditions);
  conditions.assign(p.conditions, p.conditions + p.n_conditions);
  for (kernels::Condition& c : conditions) {
    go_inside(c.allowed.data, c.of_query.data, c.of_key.data);
    if (c.forbid) throw Error("shadow", "a condition is a function of the host");
  }
  p.conditions = conditions.data();
}
void translate(kernels::AttentionResult& r) {
  go_inside(r.context.data, r.stat, r.chosen, r.best, r.weights.data, r.kept);
}
void translate(kernels::AttentionGradients& g) {
  go_inside(g.context.data, g.d_context.data, g.d_weights.data, g.d_stat, g.d_log_prob, g.d_entropy,
            g.entropy, g.stat, g.chosen, g.kept);
  go_inside(g.dq.data, g.dk.data, g.dv.data, g.dgiven.data, g.du, g.dcenter, g.dsink, g.dbias.data);
}
template <class T>
void translate(kernels::RowsView<T>& x) {
  go_inside(x.data);
}
void translate(kernels::StepMemory& m) { go_inside(m.ends, m.keys.data, m.values.data, m.u); }
void translate(kernels::StepGradient& x) { go_inside(x.q, x.p, x.dp, x.g, x.dq); }
void translate(kernels::KeptStep& x) { go_inside(x.weights, x.vectors); }
template <class T>
void translate(std::vector<T>& all) {
  for (T& x : all) translate(x);
}

// Of an argument, what can be changed.
template <class T>
T copy_of(const T& x) {
  return x;
}
template <class T>
std::vector<T> copy_of(std::span<const T> all) {
  return {all.begin(), all.end()};
}

// A member of the table by the CPU's, on memory inside.
template <auto kMember>
struct Through;
template <class R, class... Args, R (*Kernels::*kMember)(Args...)>
struct Through<kMember> {
  static R call(Args... args) {
    auto there = std::make_tuple(copy_of(args)...);
    std::apply([](auto&... x) { (translate(x), ...); }, there);
    return std::apply(kCpu.*kMember, there);
  }
};

void elementwise(kernels::Op op, std::span<const int64_t> shape,
                 std::initializer_list<kernels::Source> inputs, kernels::Target out,
                 kernels::Numbers numbers) {
  std::vector<kernels::Source> x(inputs.begin(), inputs.end());
  translate(x);
  translate(out);
  switch (x.size()) {
    case 1:
      return kCpu.elementwise(op, shape, {x[0]}, out, numbers);
    case 2:
      return kCpu.elementwise(op, shape, {x[0], x[1]}, out, numbers);
    case 3:
      return kCpu.elementwise(op, shape, {x[0], x[1], x[2]}, out, numbers);
    default:
      throw Error("shadow", "elementwise has " + std::to_string(x.size()) + " inputs");
  }
}

// What only a GPU has in one call, of the CPU's parts.
void copy_all(std::span<const kernels::Copy> copies) {
  for (const kernels::Copy& c : copies) {
    if (c.bytes > 0) std::memcpy(region().inside(c.to), region().inside(c.from), c.bytes);
  }
}

void gemm_two(const kernels::Gemm& a, const kernels::Gemm& b) {
  Through<&Kernels::gemm>::call(a);
  Through<&Kernels::gemm>::call(b);
}

// a·Wᵀ + bias + plus of rows inside.
std::vector<float> times(const kernels::CellRows& rows, const kernels::RowProduct& x,
                         const float* bias, const float* plus) {
  const int64_t n = 3 * rows.hidden;
  std::vector<float> y(static_cast<size_t>(rows.count * n));
  kCpu.gemm({.m = rows.count,
             .n = n,
             .k = x.k,
             .a = x.a,
             .a_row = x.a_row,
             .b = x.w,
             .b_row = 1,
             .b_col = x.w_row,
             .c = y.data(),
             .c_row = n,
             .bias = bias,
             .plus = plus,
             .plus_row = n});
  return y;
}

void gru_whole(std::span<const kernels::GruWhole> steps) {
  for (kernels::GruWhole g : steps) {
    translate(g.rows);
    translate(g.step);
    go_inside(g.fed.a, g.fed.w, g.state.a, g.state.w, g.bias);
    const std::vector<float> x = times(g.rows, g.fed, nullptr, g.step.x);
    const std::vector<float> u = times(g.rows, g.state, g.bias, nullptr);
    g.step.x = x.data();
    g.step.u = u.data();
    kCpu.gru_forward(g.rows, g.step);
  }
}

void gru_whole_backward(std::span<const kernels::GruWholeGradient> steps) {
  for (kernels::GruWholeGradient g : steps) {
    translate(g.rows);
    translate(g.step);
    go_inside(g.after, g.w);
    const int64_t H = g.rows.hidden;
    std::vector<float> dh(static_cast<size_t>(g.rows.count * H));
    kCpu.gemm({.m = g.rows.count,
               .n = H,
               .k = g.after ? 3 * H : 0,
               .a = g.after,
               .a_row = 3 * H,
               .b = g.w,
               .b_row = g.w_row,
               .c = dh.data(),
               .c_row = H,
               .plus = g.step.dh_next,
               .plus_row = H});
    g.step.dh_next = dh.data();
    kCpu.gru_backward(g.rows, g.step);
  }
}

// A member that computes attention, where devices do.
template <auto kMember>
struct OfAttention;
template <class... Args, void (*Kernels::*kMember)(const kernels::AttentionProblem&, Args...)>
struct OfAttention<kMember> {
  static void call(const kernels::AttentionProblem& p, Args... args) {
    if (const char* reason = kernels::refused_by_devices(p)) throw Error("shadow", reason);
    Through<kMember>::call(p, args...);
  }
};

Kernels make_table() {
  Kernels k;
  k.name = [] { return "shadow"; };
  k.allocate = [](size_t bytes) { return region().take(bytes); };
  k.give_back = [](void* block) { region().give_back(block); };
  k.upload = [](void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(region().inside(to), from, bytes);
  };
  k.download = [](void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, region().inside(from), bytes);
  };
  k.synchronize = [] {};
#define FOVEA_THROUGH(member) k.member = Through<&Kernels::member>::call
  FOVEA_THROUGH(clear);
  FOVEA_THROUGH(fill);
  FOVEA_THROUGH(strided_copy);
  FOVEA_THROUGH(strided_add);
  FOVEA_THROUGH(to_floats);
  FOVEA_THROUGH(truth_of);
  FOVEA_THROUGH(reduce);
  FOVEA_THROUGH(argmax);
  FOVEA_THROUGH(gemm);
  FOVEA_THROUGH(take_rows);
  FOVEA_THROUGH(add_rows);
  FOVEA_THROUGH(take_along);
  FOVEA_THROUGH(add_along);
  FOVEA_THROUGH(clear_rows);
  FOVEA_THROUGH(softmax_rows);
  FOVEA_THROUGH(d_softmax_rows);
  FOVEA_THROUGH(log_softmax_rows);
  FOVEA_THROUGH(d_log_softmax_rows);
  FOVEA_THROUGH(norm_rows);
  FOVEA_THROUGH(d_norm_rows);
  FOVEA_THROUGH(cross_entropy_rows);
  FOVEA_THROUGH(d_cross_entropy_rows);
  FOVEA_THROUGH(dropout);
  FOVEA_THROUGH(rotate);
  FOVEA_THROUGH(rnn_forward);
  FOVEA_THROUGH(rnn_backward);
  FOVEA_THROUGH(gru_forward);
  FOVEA_THROUGH(gru_backward);
  FOVEA_THROUGH(lstm_forward);
  FOVEA_THROUGH(lstm_backward);
  FOVEA_THROUGH(conv);
  FOVEA_THROUGH(d_conv_x);
  FOVEA_THROUGH(d_conv_w);
  FOVEA_THROUGH(max_pool);
  FOVEA_THROUGH(d_max_pool);
  FOVEA_THROUGH(avg_pool);
  FOVEA_THROUGH(d_avg_pool);
  FOVEA_THROUGH(adam);
  FOVEA_THROUGH(descend);
  FOVEA_THROUGH(squared_norm);
  FOVEA_THROUGH(scale);
  FOVEA_THROUGH(move_average);
  FOVEA_THROUGH(swap);
  FOVEA_THROUGH(top_of_rows);
  FOVEA_THROUGH(all_finite);
  FOVEA_THROUGH(steps_prepare);
  FOVEA_THROUGH(step_forward);
  FOVEA_THROUGH(step_d_weights);
  FOVEA_THROUGH(step_d_query);
  FOVEA_THROUGH(steps_d_rows);
  FOVEA_THROUGH(steps_d_additive);
#undef FOVEA_THROUGH
  k.elementwise = elementwise;
  k.copy_all = copy_all;
  k.gemm_two = gemm_two;
  k.gru_whole = gru_whole;
  k.gru_whole_backward = gru_whole_backward;
  k.refuses = kernels::refused_by_devices;
  k.attention_forward = OfAttention<&Kernels::attention_forward>::call;
  k.attention_backward = OfAttention<&Kernels::attention_backward>::call;
  k.attention_weights = OfAttention<&Kernels::attention_weights>::call;
  k.attention_entropy = OfAttention<&Kernels::attention_entropy>::call;
  k.attention_log_prob = OfAttention<&Kernels::attention_log_prob>::call;
  return k;
}

}  // namespace

const kernels::Kernels& shadow_kernels() {
  static const Kernels* const table = [] {
    struct sigaction action {};
    action.sa_sigaction = report;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    return new Kernels(make_table());
  }();
  return *table;
}

}  // namespace fovea::test
