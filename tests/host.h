#pragma once

#include "fovea/tensor.h"

// A test's way to numbers of a tensor, on whichever device it is.
namespace fovea::test {

// f(numbers): changes them in place.
template <class T, class F>
void edit(const Tensor& t, const F& f) {
  const NoGrad off;
  Tensor here = t.detach().to(Device::cpu);
  f(here.mutable_data<T>());
  if (t.device() != Device::cpu) t.detach().copy_(here);
}

}  // namespace fovea::test
