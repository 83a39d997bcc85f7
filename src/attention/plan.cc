#include "attention/plan.h"

#include <algorithm>
#include <cstdlib>

#include "attention/check.h"

namespace fovea {
namespace {

struct Candidate {
  Plan plan;
  const char* name;
  bool (*can)(const PlanRequest&);
  std::string (*wants)();
};

// The weighting whose weights are the scores.
std::string plain_weighting() {
  for (const WeightingDef* def : weighting_table())
    if (def->kind == WeightingKind::none) return def->name;
  return "of scores as they are";
}

// O(L) beats O(L²) once a sequence is longer than a few widths; not by way of the host.
bool linear_pays(const PlanRequest& r) {
  return r.device == Device::cpu && r.n.Lq * r.n.Lk > 4 * (r.n.Lq + r.n.Lk) * r.n.Dk;
}

bool can_linear(const PlanRequest& r) {
  return r.form == Form::dot && r.weighting == WeightingKind::none && r.prefix_mask && !r.capped &&
         !r.bias && !r.dropout && r.predicted_windows == 0;
}
bool can_fused(const PlanRequest& r) {
  return r.form != Form::pairs && r.predicted_windows <= 1 &&
         !(r.hard && r.weighting == WeightingKind::formula);
}
bool can_composed(const PlanRequest& r) {
  return r.predicted_windows <= 1 && !(r.hard && r.weighting == WeightingKind::formula);
}
bool can_always(const PlanRequest&) { return true; }

constexpr Candidate kPlans[] = {
    {Plan::linear, "linear", can_linear,
     [] {
       return "a dot score without a cap, the weighting " + plain_weighting() +
              ", and masks that begin at the first key";
     }},
    {Plan::fused, "fused", can_fused,
     [] { return std::string("a score with a dot or an additive form"); }},
    {Plan::composed, "composed", can_composed,
     [] { return std::string("at most one predicted window"); }},
    {Plan::reference, "reference", can_always, [] { return std::string("nothing"); }},
};

const Candidate& candidate(Plan plan) {
  return *std::find_if(std::begin(kPlans), std::end(kPlans),
                       [plan](const Candidate& c) { return c.plan == plan; });
}

}  // namespace

const char* name_of(Plan plan) {
  return plan == Plan::automatic ? "automatic" : candidate(plan).name;
}

Plan plan(const std::string& name) {
  if (name == "automatic") return Plan::automatic;
  std::string known = "automatic";
  for (const Candidate& c : kPlans) {
    if (name == c.name) return c.plan;
    known += std::string(", ") + c.name;
  }
  throw Error("plan", "there is no plan \"" + name + "\"; there are " + known);
}

PlanRequest request_for(const Attention& a, const Sizes& n, Device device) {
  const WeightingDef& weighting = def_of(a.weighting);
  PlanRequest r{.n = n, .device = device, .form = def_of(a.score).form};
  r.weighting = weighting.kind;
  r.hard = weighting.hard;
  r.prefix_mask = true;
  r.capped = a.score.softcap.has_value();
  r.bias = a.score.bias.has_value();
  r.dropout = a.weighting.dropout > 0.0f;
  for (const MaskTerm& term : a.mask.terms) {
    r.prefix_mask &= term.def->prefix;
    r.bias |= term.def->bias && term.def->bias(term).defined();
    r.predicted_windows += term.def->center != nullptr;
  }
  return r;
}

Plan choose_plan(const PlanRequest& request, Plan asked) {
  if (asked != Plan::automatic) {
    const Candidate& c = candidate(asked);
    if (c.can(request)) return asked;
    throw Error("attend", std::string("plan ") + c.name + " cannot do this; it wants " + c.wants());
  }
  for (const Candidate& c : kPlans) {
    if (c.can(request) && (c.plan != Plan::linear || linear_pays(request))) return c.plan;
  }
  return Plan::reference;
}

Plan usual_plan() {
  static const Plan usual = [] {
    const char* name = std::getenv("FOVEA_PLAN");
    return name == nullptr || *name == '\0' ? Plan::automatic : plan(name);
  }();
  return usual;
}

std::vector<std::string> list_plans() {
  std::vector<std::string> names;
  for (const Candidate& c : kPlans) names.emplace_back(c.name);
  return names;
}

}  // namespace fovea
