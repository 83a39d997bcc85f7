#pragma once

#include <string>

#include "attention/def.h"

namespace fovea {

// What the choice of a plan depends on, and nothing else.
struct PlanRequest {
  Sizes n{};
  Device device = Device::cpu;
  Form form = Form::dot;
  WeightingKind weighting = WeightingKind::softmax;
  bool hard = false;
  bool prefix_mask = false;  // queries see the keys from 0 to an end that never falls
  bool capped = false;       // softcap
  bool bias = false;
  bool dropout = false;
  int predicted_windows = 0;
};

// Of the choices and the shapes alone: nothing is lowered for it.
PlanRequest request_for(const Attention&, const Sizes&, Device = Device::cpu);

// The first plan of the list (linear, fused, composed, reference) that can do it;
// or the one asked for, which throws where it cannot.
Plan choose_plan(const PlanRequest&, Plan asked);

// What a call asks for where its caller does not: FOVEA_PLAN, read once.
Plan usual_plan();

}  // namespace fovea
