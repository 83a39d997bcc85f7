#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/width.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include "core/isa.h"
#include "kernels/width.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

int64_t Floats() {
  return static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>()));
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(Floats);

int64_t vector_floats() {
  use_isa_from_environment();
  return HWY_DYNAMIC_DISPATCH(Floats)();
}

}  // namespace fovea::kernels
#endif
