#include <algorithm>

#include "attention/def.h"

namespace fovea {

extern const MaskDef mask_lengths = {
    .name = "lengths",
    .formula = "j < lengths[b]",
    .parameters = {{"lengths", {"B"}, DType::i64}},
    .lengths = [](const MaskTerm& t) { return t.parameters.at("lengths"); },
    .range =
        [](const MaskTerm& t, const MaskContext& c, int64_t b, int64_t) {
          const Tensor& lengths = t.parameters.at("lengths");
          const int64_t length = lengths.data<int64_t>()[b * lengths.strides()[0]];
          return KeyRange{0, std::clamp<int64_t>(length, 0, c.n.Lk)};
        },
    .prefix = true,
};

Mask masks::lengths(Tensor lengths) {
  return {{{.def = &mask_lengths, .parameters = only_defined({{"lengths", lengths}})}}};
}

}  // namespace fovea
