#pragma once

#include <atomic>

#include "fovea/error.h"

namespace fovea::explorer {

// Held by what takes long; two at a time, so that others are still answered.
class MeasurementSlot {
 public:
  MeasurementSlot() {
    if (++under_way <= kMost) return;
    --under_way;
    throw Error("measure", "two measurements are under way: wait for one, or cancel it");
  }
  ~MeasurementSlot() { --under_way; }
  MeasurementSlot(const MeasurementSlot&) = delete;
  MeasurementSlot& operator=(const MeasurementSlot&) = delete;

 private:
  static constexpr int kMost = 2;
  static inline std::atomic<int> under_way{0};
};

}  // namespace fovea::explorer
