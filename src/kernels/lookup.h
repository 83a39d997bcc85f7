#pragma once

#include <cstdint>

// Reading and adding by id along the middle of [outer, size, inner]. ids are inside 0 … size−1.
// Additions to one place happen in the order of the ids, whatever the threads.
namespace fovea::kernels {

struct Middle {
  int64_t outer = 1, size = 0, inner = 1;
};

// y[o,i,:] = x[o,ids[i],:], and x[o,ids[i],:] += y[o,i,:].  y [outer,n,inner].
template <class T>  // float, int64_t
void take_rows(Middle, const int64_t* ids, int64_t n, const T* x, T* y);
void add_rows(Middle, const int64_t* ids, int64_t n, const float* y, float* x);

// The same with an id for each element: ids and y [outer,n,inner].
void take_along(Middle, const int64_t* ids, int64_t n, const float* x, float* y);
void add_along(Middle, const int64_t* ids, int64_t n, const float* y, float* x);

// Where the first of n ids outside 0 … size−1 stands; n where there is none.
int64_t first_outside(const int64_t* ids, int64_t n, int64_t size);

}  // namespace fovea::kernels
