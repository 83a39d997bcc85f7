#include "attention/def.h"

namespace fovea {
namespace {

const uint8_t* bytes_of_row(const Tensor& m, int64_t b, int64_t h, int64_t i) {
  const int64_t at[] = {b, h, i};
  const uint8_t* row = m.data<uint8_t>();
  for (int d = 0; d + 1 < m.rank(); ++d)
    if (m.size(d) != 1) row += at[4 - m.rank() + d] * m.strides()[d];
  return row;
}

int64_t step_of(const Tensor& m) {
  return m.rank() == 0 || m.size(-1) == 1 ? 0 : m.strides().back();
}

}  // namespace

// A bool matrix says which pairs are allowed; an f32 matrix is added to the scores, and −inf
// forbids. The lowest finite number does not: a row that holds nothing else sees all its keys.
extern const MaskDef mask_matrix = {
    .name = "matrix",
    .formula = "mask[b,h,i,j], or + mask[b,h,i,j]",
    .parameters = {{"mask", {"B?", "H?", "Lq?", "Lk?"}, DType::boolean, true}},
    .allows =
        [](const MaskTerm& t, const MaskContext&, int64_t b, int64_t h, int64_t i, int64_t j) {
          const Tensor& m = t.parameters.at("mask");
          return m.dtype() != DType::boolean || bytes_of_row(m, b, h, i)[j * step_of(m)] != 0;
        },
    .allowed =
        [](const MaskTerm& t) {
          const Tensor& m = t.parameters.at("mask");
          return m.dtype() == DType::boolean ? m : Tensor();
        },
    .bias =
        [](const MaskTerm& t) {
          const Tensor& m = t.parameters.at("mask");
          return m.dtype() == DType::f32 ? m : Tensor();
        },
};

Mask masks::matrix(Tensor allowed) {
  return {{{.def = &mask_matrix, .parameters = only_defined({{"mask", allowed}})}}};
}

}  // namespace fovea
