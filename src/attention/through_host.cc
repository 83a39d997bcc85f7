#include <algorithm>
#include <memory>

#include "attention/check.h"
#include "attention/state.h"
#include "tensor/impl.h"

// What a device has no kernels for: the call is brought to the CPU and its results back, on the
// tape.
namespace fovea {
namespace {

void bring(Tensors& tensors, std::vector<Saved>& saved) {
  for (auto& [name, t] : tensors) {
    if (t) saved.emplace_back(t);
    if (t) t = t.to(Device::cpu);
  }
}

}  // namespace

bool device_can(Device device, Plan plan, const Attention& attention, const Sizes& n) {
  if (plan != Plan::fused && plan != Plan::composed) return false;
  const MaskContext context = mask_context(attention.mask, n);
  for (const MaskTerm& term : attention.mask.terms) {
    const bool added = term.def->bias && term.def->bias(term);
    const bool condition = term.def->allows && !added && !is_range(term, context);
    if (condition && !asked_by_memory(term)) return false;
  }
  if (n.B == 0 || n.H == 0 || n.Lq == 0 || n.Lk == 0) return true;
  kernels::AttentionProblem p{.B = n.B, .H = n.H, .Hk = n.Hk, .Lq = n.Lq, .Lk = n.Lk};
  p.D = std::min(n.Dq, n.Dk), p.Dv = n.Dv;
  if (plan == Plan::composed) p.family = kernels::Family::given;
  p.weigh = def_of(attention.weighting).kind;
  return kernels::on(device).refuses(p) == nullptr;
}

bool device_can_in_bf16(Device device, Plan plan, const Attention& attention, const Sizes& n) {
  if (plan != Plan::fused || n.B == 0 || n.H == 0 || n.Lq == 0 || n.Lk == 0) return false;
  const ScoreDef& def = def_of(attention.score);
  const Sides sides = lowered_sides(def, n);
  if (def.form != Form::dot || sides.queries || sides.keys || attention.score.bias) return false;
  const MaskContext context = mask_context(attention.mask, n);
  for (const MaskTerm& term : attention.mask.terms) {
    const bool added = term.def->bias && term.def->bias(term);
    if (added || term.def->center || !is_range(term, context)) return false;
  }
  static constexpr uint16_t kSome = 0;  // only whether there is one is asked
  kernels::AttentionProblem p{.B = n.B, .H = n.H, .Hk = n.Hk, .Lq = n.Lq, .Lk = n.Lk};
  p.D = std::min(n.Dq, n.Dk), p.Dv = n.Dv;
  p.q16.data = p.k16.data = p.v16.data = &kSome;
  p.weigh = def_of(attention.weighting).kind;
  p.softcap = attention.score.softcap.value_or(0.0f);
  p.dropout = attention.weighting.dropout;
  return kernels::on(device).refuses(p) == nullptr;
}

Attended through_host(const HostCall& there, const std::function<Attended(const HostCall&)>& run) {
  const Device device = there.q.device();
  std::vector<Saved> saved{Saved(there.q), Saved(there.k), Saved(there.v)};
  HostCall here{there.q.to(Device::cpu), there.k.to(Device::cpu), there.v.to(Device::cpu),
                there.attention};
  Attention& a = here.attention;
  bring(a.score.parameters, saved);
  bring(a.weighting.parameters, saved);
  for (MaskTerm& term : a.mask.terms) bring(term.parameters, saved);
  if (a.score.bias) {
    saved.emplace_back(a.score.bias->table);
    a.score.bias->table = a.score.bias->table.to(Device::cpu);
  }
  Attended out = run(here);
  const auto state = std::const_pointer_cast<AttendedState>(out.state);  // nobody else has it yet
  state->device = device;
  state->saved.insert(state->saved.end(), saved.begin(), saved.end());
  out.context = out.context.to(device);
  return out;
}

Attended attend_through_host(const HostCall& there, const Want& want) {
  return through_host(there,
                      [&](const HostCall& x) { return attend(x.q, x.k, x.v, x.attention, want); });
}

}  // namespace fovea
