#include "attention/def.h"

namespace fovea {

// A bool matrix says which pairs are allowed; an f32 matrix is added to the scores, and −inf
// forbids. The lowest finite number does not: a row that holds nothing else sees all its keys.
extern const MaskDef mask_matrix = {
    .name = "matrix",
    .formula = "mask[b,h,i,j], or + mask[b,h,i,j]",
    .parameters = {{"mask", {"B?", "H?", "Lq?", "Lk?"}, DType::boolean, true}},
    .allows =
        [](const MaskTerm& t, const MaskContext&, int64_t b, int64_t h, int64_t i, int64_t j) {
          const Tensor& m = t.parameters.at("mask");
          if (m.dtype() != DType::boolean) return true;
          const int64_t at[] = {b, h, i, j};
          int64_t offset = 0;
          for (int d = 0; d < m.rank(); ++d)
            if (m.size(d) != 1) offset += at[4 - m.rank() + d] * m.strides()[d];
          return m.data<uint8_t>()[offset] != 0;
        },
    .allowed =
        [](const MaskTerm& t, const MaskContext&) {
          const Tensor& m = t.parameters.at("mask");
          return m.dtype() == DType::boolean ? m : Tensor();
        },
    .bias =
        [](const MaskTerm& t) {
          const Tensor& m = t.parameters.at("mask");
          return m.dtype() == DType::f32 ? m : Tensor();
        },
};

}  // namespace fovea
