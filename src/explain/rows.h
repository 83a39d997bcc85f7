#pragma once

#include "fovea/explain.h"
#include "fovea/ops.h"
#include "tensor/tape.h"

// Many passes as the rows of one.
namespace fovea::explain {

Tensor repeated(const Tensor& x, int64_t rows);  // […] → [rows,…], off the tape

// ∂y_t/∂row, t the row's own of `which`: of the rows' shape.
Tensor gradient_of_rows(const OneEach&, Tensor rows, std::span<const int64_t> which);

}  // namespace fovea::explain
