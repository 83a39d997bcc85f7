#include "shadow.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
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

// Address space of its own. A block is whole pages, closed but for calls that are given it.
class Region {
 public:
  Region() {
    void* const at =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw Error("shadow", "the system refused address space");
    base_ = static_cast<std::byte*>(at);
  }

  bool owns(const void* p) const { return p >= base_ && p < base_ + kReserved; }

  void* take(size_t bytes) {
    const size_t size = (size_class(bytes).bytes + kPage - 1) / kPage * kPage;
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& spare = free_[size];
    std::byte* at = base_ + used_;
    if (!spare.empty()) {
      at = spare.back();
      spare.pop_back();
    } else {
      if (used_ + size > kReserved) throw Error("shadow", "out of memory");
      used_ += size;
    }
    blocks_[at] = {size, 0, true};
    return at;
  }

  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(block));
    free_[found->second.bytes].push_back(found->first);
    blocks_.erase(found);
  }

  // The blocks that these lie in.
  void open(const std::vector<const void*>& given) {
    const std::lock_guard lock(mutex_);
    for (const void* p : given) {
      auto& [at, block] = block_of(p);
      if (block.open++ > 0) continue;
      mprotect(at, block.bytes, PROT_READ | PROT_WRITE);
      if (block.fresh) std::memset(at, 0xff, block.bytes);  // NaN: what is never written shows
      block.fresh = false;
    }
  }
  void close(const std::vector<const void*>& given) {
    const std::lock_guard lock(mutex_);
    for (const void* p : given) {
      auto& [at, block] = block_of(p);
      if (--block.open == 0) mprotect(at, block.bytes, PROT_NONE);
    }
  }

 private:
  struct Block {
    size_t bytes = 0;
    int open = 0;
    bool fresh = true;
  };
  using Blocks = std::map<std::byte*, Block>;

  Blocks::value_type& block_of(const void* p) {
    auto after = blocks_.upper_bound(static_cast<std::byte*>(const_cast<void*>(p)));
    return *std::prev(after);
  }

  std::byte* base_ = nullptr;
  size_t used_ = 0;
  std::mutex mutex_;
  Blocks blocks_;  // handed out
  std::unordered_map<size_t, std::vector<std::byte*>> free_;
};

Region& region() {
  static Region* const one = new Region;  // tensors in statics may outlive it
  return *one;
}

thread_local std::vector<const void*> given;  // to the call that begins

// Open while a call runs.
struct Opened {
  const std::vector<const void*> blocks = std::exchange(given, {});
  Opened() { region().open(blocks); }
  ~Opened() { region().close(blocks); }
};

void report(int, siginfo_t* info, void*) {
  if (region().owns(info->si_addr)) {
    constexpr char kText[] = "host code touched memory of the device:\n";
    (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
    void* frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  }
  std::signal(SIGSEGV, SIG_DFL);  // and fault again
}

// ---- what a call points to ---------------------------------------------------------------------

template <class... P>
void theirs(const P*... pointers) {
  for (const void* p : {static_cast<const void*>(pointers)...}) {
    if (p == nullptr) continue;
    if (!region().owns(p)) {
      given.clear();
      throw Error("shadow", "a call points to memory of the host");
    }
    given.push_back(p);
  }
}

template <class T>
void look_at(const T&) {}  // sizes and numbers
template <class T>
void look_at(T* const& p) {
  theirs(p);
}
template <class T>
void look_at(const View<T>& v) {
  theirs(v.data);
}
template <class T>
void look_at(const std::span<T>& all);

void look_at(const kernels::Bytes& x) { theirs(x.data); }
void look_at(const kernels::Target& x) { theirs(x.data); }
void look_at(const std::initializer_list<kernels::Source>& all) {
  for (const kernels::Source& x : all) theirs(x.data);
}
void look_at(const kernels::Gemm& g) { theirs(g.a, g.b, g.b_scale, g.c, g.bias, g.plus); }
void look_at(const kernels::Affine& x) { theirs(x.w, x.b); }
void look_at(const kernels::Moments& x) { theirs(x.mean, x.rstd); }
void look_at(const kernels::Normed& x) { theirs(x.x, x.at.mean, x.at.rstd, x.dy); }
void look_at(const kernels::NormGradients& x) { theirs(x.x, x.w, x.b); }
void look_at(const kernels::Targets& x) { theirs(x.ids); }
void look_at(const kernels::LogSums& x) { theirs(x.max, x.log); }
void look_at(const kernels::LossGradient& x) { theirs(x.d_loss); }
void look_at(const kernels::HeadRows& x) { theirs(x.data); }
void look_at(const kernels::Angles& x) { theirs(x.cos, x.sin); }
void look_at(const kernels::CellRows& x) { theirs(x.active); }
void look_at(const kernels::RnnStep& x) { theirs(x.u, x.h, x.h_next); }
void look_at(const kernels::RnnGradient& x) { theirs(x.h_next, x.d_out, x.dh_next, x.du, x.dh); }
void look_at(const kernels::GruStep& x) { theirs(x.x, x.u, x.h, x.h_next, x.kept); }
void look_at(const kernels::GruGradient& x) {
  theirs(x.kept, x.h, x.d_out, x.dh_next, x.dx, x.du, x.dh);
}
void look_at(const kernels::LstmStep& x) { theirs(x.u, x.h, x.c, x.h_next, x.c_next, x.kept); }
void look_at(const kernels::LstmGradient& x) {
  theirs(x.kept, x.c, x.d_out, x.dh_next, x.dc_next, x.du, x.dh, x.dc);
}
void look_at(const kernels::Learned& x) { theirs(x.weight, x.gradient, x.first, x.second); }
void look_at(const kernels::Values& x) { theirs(x.data); }
void look_at(const kernels::Averaged& x) { theirs(x.average, x.value); }
void look_at(const kernels::AttentionProblem& p) {
  theirs(p.q.data, p.k.data, p.v.data, p.u, p.given.data, p.begin.data, p.end.data, p.allowed.data,
         p.bias.data, p.center.data, p.sink);
}
void look_at(const kernels::AttentionResult& r) {
  theirs(r.context.data, r.stat, r.chosen, r.weights.data, r.kept);
}
void look_at(const kernels::AttentionGradients& g) {
  theirs(g.context.data, g.d_context.data, g.d_weights.data, g.d_stat, g.d_log_prob, g.d_entropy,
         g.entropy, g.stat, g.chosen, g.kept);
  theirs(g.dq.data, g.dk.data, g.dv.data, g.dgiven.data, g.du, g.dcenter, g.dsink, g.dbias.data);
}
template <class T>
void look_at(const std::span<T>& all) {
  for (const auto& x : all) look_at(x);
}

// A member of the table by the CPU's, in opened memory.
template <auto kMember>
struct Through;
template <class R, class... Args, R (*Kernels::*kMember)(Args...)>
struct Through<kMember> {
  static R call(Args... args) {
    (look_at(args), ...);
    const Opened opened;
    return (kCpu.*kMember)(args...);
  }
};

void expect_done(const kernels::AttentionProblem& p, const kernels::AttentionGradients* g) {
  if (const char* reason = kernels::refused_by_devices(p, g)) throw Error("shadow", reason);
}

Kernels make_table() {
  Kernels k;
  k.name = [] { return "shadow"; };
  k.allocate = [](size_t bytes) { return region().take(bytes); };
  k.give_back = [](void* block) { region().give_back(block); };
  k.upload = [](void* to, const void* from, size_t bytes) {
    theirs(to);
    const Opened opened;
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  k.download = [](void* to, const void* from, size_t bytes) {
    theirs(from);
    const Opened opened;
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  k.synchronize = [] {};
#define FOVEA_THROUGH(member) k.member = Through<&Kernels::member>::call
  FOVEA_THROUGH(clear);
  FOVEA_THROUGH(fill);
  FOVEA_THROUGH(strided_copy);
  FOVEA_THROUGH(strided_add);
  FOVEA_THROUGH(to_floats);
  FOVEA_THROUGH(truth_of);
  FOVEA_THROUGH(elementwise);
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
  FOVEA_THROUGH(all_finite);
#undef FOVEA_THROUGH
  k.refuses = kernels::refused_by_devices;
  k.attention_forward = [](const kernels::AttentionProblem& p, const kernels::AttentionResult& r) {
    expect_done(p, nullptr);
    Through<&Kernels::attention_forward>::call(p, r);
  };
  k.attention_backward = [](const kernels::AttentionProblem& p,
                            const kernels::AttentionGradients& g) {
    expect_done(p, &g);
    Through<&Kernels::attention_backward>::call(p, g);
  };
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
