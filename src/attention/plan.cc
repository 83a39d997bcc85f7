#include "attention/plan.h"

#include <algorithm>
#include <cstdlib>

namespace fovea {
namespace {

struct Candidate {
  Plan plan;
  const char* name;
  bool (*can)(const PlanRequest&);
  const char* wants;
};

// O(L) beats O(L²) once a sequence is longer than a few widths.
bool linear_pays(const PlanRequest& r) { return r.n.Lq * r.n.Lk > 4 * (r.n.Lq + r.n.Lk) * r.n.Dk; }

bool can_linear(const PlanRequest& r) {
  return r.dot && r.weighting == WeightingKind::none && r.prefix_mask && !r.bias && !r.dropout &&
         r.predicted_windows == 0;
}
bool can_fused(const PlanRequest& r) {
  return r.factored && r.predicted_windows <= 1 &&
         !(r.hard && r.weighting == WeightingKind::formula);
}
bool can_composed(const PlanRequest& r) {
  return r.predicted_windows <= 1 && !(r.hard && r.weighting == WeightingKind::formula);
}
bool can_always(const PlanRequest&) { return true; }

constexpr Candidate kPlans[] = {
    {Plan::linear, "linear", can_linear,
     "a dot score, the weighting none, and no mask but causal and lengths"},
    {Plan::fused, "fused", can_fused, "a score with a dot or an additive form"},
    {Plan::composed, "composed", can_composed, "at most one predicted window"},
    {Plan::reference, "reference", can_always, "nothing"},
};

const Candidate& candidate(Plan plan) {
  return *std::find_if(std::begin(kPlans), std::end(kPlans),
                       [plan](const Candidate& c) { return c.plan == plan; });
}

Plan from_environment() {
  const char* name = std::getenv("FOVEA_PLAN");
  return name == nullptr || *name == '\0' ? Plan::automatic : plan(name);
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

Plan choose_plan(const PlanRequest& request, Plan asked) {
  if (asked == Plan::automatic) asked = from_environment();
  if (asked != Plan::automatic) {
    const Candidate& c = candidate(asked);
    if (c.can(request)) return asked;
    throw Error("attend", std::string("plan ") + c.name + " cannot do this; it wants " + c.wants);
  }
  for (const Candidate& c : kPlans) {
    if (c.can(request) && (c.plan != Plan::linear || linear_pays(request))) return c.plan;
  }
  return Plan::reference;
}

std::vector<std::string> list_plans() {
  std::vector<std::string> names;
  for (const Candidate& c : kPlans) names.emplace_back(c.name);
  return names;
}

}  // namespace fovea
