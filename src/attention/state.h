#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/lower.h"
#include "attention/pairs.h"
#include "attention/reference.h"
#include "tensor/tape.h"

// What a call of attend() leaves behind for the backward pass and for looks inside.
namespace fovea {

// The tensors a kernel problem reads, as they are on the tape: q′ and k′, lowered. Undefined where
// absent.
struct KernelInputs {
  Tensor q, k, v, u, bias, center, sink;
};

struct AttendedState {
  Device computed = Device::cpu;        // where the call was computed
  Device device = Device::cpu;          // where its tensors are: results go there
  bool in_bf16 = false;                 // by a device: q, k and v, and the context
  std::function<Attended()> in_floats;  // the same call, for looks inside one in bf16
  Sizes n{};
  int rank = 4;
  Plan plan = Plan::automatic;
  Attention attention;
  LoweredMask mask;
  // Where a device reads them: the mask's ranges, begin then end; its conditions, and what those
  // point to. A device that is not the CPU writes chosen keys there, too.
  std::shared_ptr<void> ranges, conditions, chosen_there;
  std::vector<Tensor> of_conditions;
  LoweredMask mask_here;  // the composed plan's, on the CPU

  // Plans that run kernels.
  KernelInputs inputs;
  kernels::AttentionProblem problem;
  PairScore pair;               // the composed plan's
  Tensor context;               // [B,H,Lq,Dv], off the tape, in the memory order of the queries
  Tensor stat;                  // [B,H,Lq]
  std::vector<int32_t> chosen;  // [B,H,Lq], hard weightings; −1: none
  std::vector<float> best;      // [B,H,Lq], likewise: their scores, of a part of the keys
  Tensor weights;               // [B,H,Lq,Lk] when kept while passing by
  Tensor kept;                  // [B,H,Lq,·] weights of few keys, for the backward pass

  // The reference: its inputs and results, and the tensors by the names of its gradients.
  ReferenceInputs reference;
  ReferenceOutput result;
  std::vector<std::string> names;

  std::vector<Tensor> on_tape;  // everything a gradient may flow to
  std::vector<Saved> saved;     // what looks inside read again, to notice changes
  std::vector<Saved> results;   // what only the backward pass reads again

  // Scores are computed again from q, k and the rest: they must still be those of the call.
  void check_unchanged(const char* op) const {
    for (const Saved& s : saved) s.get(op);
  }

  // A result [B,H,…] in the rank the caller used, where the caller is; ids stay on the CPU.
  Tensor shaped(Tensor t) const {
    if (rank <= 3) t = t.squeeze(1);
    if (rank == 2) t = t.squeeze(0);
    return t.dtype() == DType::f32 ? t.to(device) : t;
  }
  Shape shaped(Shape shape) const {
    shape.erase(shape.begin() + (rank == 2 ? 0 : 1), shape.begin() + (rank <= 3 ? 2 : 1));
    return shape;
  }
};

// Keys of a call as they were given and, where a Memory lowered them before, as the score reads
// them.
struct Keys {
  Tensor given, lowered;
  bool finite = false;  // what the kernels read of them, and the values, is known to be
};
// attend() over them.
Attended attend_to(const Tensor& q, const Keys&, const Tensor& v, const Attention&, const Want&);

// Whether a device can do what was chosen; else it is done by way of the host, with gradients, slow
// and right.
bool device_can(Device, Plan, const Attention&, const Sizes&);
// The same of a call whose queries, keys and values are bf16, in bf16.
bool device_can_in_bf16(Device, Plan, const Attention&, const Sizes&);
struct HostCall {
  Tensor q, k, v;
  Attention attention;
};
Attended through_host(const HostCall&, const std::function<Attended(const HostCall&)>& run);
Attended attend_through_host(const HostCall&, const Want&);

// Hard weightings: the keys [B,H,Lq], on the CPU.
std::vector<int32_t> chosen_keys(const AttendedState&);
void keep_chosen(AttendedState&, const std::vector<int32_t>&);

// What the kernels read: the problem, and what of it is on the tape.
void take_inputs(AttendedState&, const LoweredRows&, const Tensor& v);
// Run a plan and fill the state. By kernels: the context that is there is written.
void attend_by_kernels(AttendedState&, bool keep_weights);
// The context [B,H,Lq,Dv], off the tape.
Tensor attend_by_reference(AttendedState&, const Tensor& q, const Tensor& k, const Tensor& v);

// Gradients of a loss with respect to what a call computed; undefined where there is none.
struct Upstream {
  Tensor context, weights;                // [B,H,Lq,Dv], [B,H,Lq,Lk]
  Tensor log_sum_exp, entropy, log_prob;  // [B,H,Lq]
};
// The gradients of what is on the tape.
Grads attend_backward(const AttendedState&, const char* op, const Upstream&);
Grads backward_by_kernels(const AttendedState&, const Upstream&);
Grads backward_by_reference(const AttendedState&, const Upstream&);

// Puts an output [B,H,..] of the call on the tape; `of` says what its gradient is.
Tensor record_output(const std::shared_ptr<const AttendedState>&, const char* op,
                     const Tensor& output, Tensor Upstream::*of);

// On demand, by kernels, off the tape.
Tensor weights_by_kernels(const AttendedState&, const Select&);  // [B,H',Lq',Lk]
Tensor log_sum_exp_by_kernels(const AttendedState&);             // [B,H,Lq]
Tensor entropy_by_kernels(const AttendedState&, const Tensor& log_sum_exp);
Tensor log_prob_by_kernels(const AttendedState&, const Tensor& log_sum_exp);

// The mask without what is on another device.
LoweredMask on_cpu(LoweredMask);

Tensor from_doubles(const std::vector<double>&, const Shape&);

}  // namespace fovea
