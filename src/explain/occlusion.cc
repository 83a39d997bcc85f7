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

Without blank_squares(const Tensor& given, int64_t size, float value) {
  if (!given || given.rank() != 3 || size < 1) {
    throw Error("blank_squares", "x must be [C,Y,X] and the size at least 1, found " +
                                     (given ? to_string(given.shape()) : "nothing") + " and " +
                                     std::to_string(size));
  }
  return [x = given.detach(), size, value](int64_t i) {
    const int64_t across = (x.size(2) + size - 1) / size;
    const int64_t y0 = i / across * size, x0 = i % across * size;
    Tensor y = x.clone();
    y.slice(1, y0, std::min(y0 + size, x.size(1)))
        .slice(2, x0, std::min(x0 + size, x.size(2)))
        .fill_(value);
    return y;
  };
}

}  // namespace fovea::explain
