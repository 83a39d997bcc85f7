#include <algorithm>

#include "explain/rows.h"

namespace fovea::explain {

Tensor occlusion(const Outputs& outputs, const Tensor& given, int64_t places,
                 const Without& without, const Effort& effort) {
  const NoGrad off;
  const Tensor x = given.detach();
  const Tensor whole = outputs(repeated(x, 1));  // [1,T]
  std::vector<Tensor> parts;                     // [R,T]
  const int64_t at_once = std::max<int64_t>(1, effort.rows);
  for (int64_t begin = 0; begin < places; begin += at_once) {
    const int64_t end = std::min(places, begin + at_once);
    std::vector<Tensor> rows;
    for (int64_t i = begin; i < end; ++i) rows.push_back(without(i));
    parts.push_back(whole - outputs(stack(rows, 0)));
    if (effort.progress) effort.progress(static_cast<double>(end) / static_cast<double>(places));
  }
  if (parts.empty()) return Tensor::zeros({whole.size(1), 0});
  return concatenate(parts, 0).transpose(0, 1).contiguous();
}

Without blank_rows(const Tensor& given, const Tensor& blank) {
  return [x = given.detach(), blank = blank.detach()](int64_t i) {
    Tensor y = x.clone();
    y.select(0, i).copy_(blank);
    return y;
  };
}

Without blank_patches(const Tensor& given, const Patches& p) {
  if (!given || given.rank() != 3 || p.size < 1 || p.grid.rows < 1 || p.grid.columns < 1) {
    throw Error("blank_patches",
                "x must be [C,Y,X], the size and the grid at least 1, found " +
                    (given ? to_string(given.shape()) : "nothing") + ", " + std::to_string(p.size) +
                    " and " + std::to_string(p.grid.rows) + " × " + std::to_string(p.grid.columns));
  }
  return [x = given.detach(), p](int64_t i) {
    const auto cut = [&](const Tensor& y, int dim, int64_t place, int64_t of) {
      const int64_t n = x.size(dim), from = (2 * place + 1) * n / (2 * of) - p.size / 2;
      return y.slice(dim, std::max<int64_t>(from, 0), std::min(from + p.size, n));
    };
    Tensor y = x.clone();
    cut(cut(y, 1, i / p.grid.columns, p.grid.rows), 2, i % p.grid.columns, p.grid.columns)
        .fill_(p.value);
    return y;
  };
}

}  // namespace fovea::explain
