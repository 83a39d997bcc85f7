#include <string>

#include "fovea/explain.h"
#include "fovea/ops.h"

namespace fovea::explain {
namespace {

void expect_places(const char* call, const Tensor& x, const Grid& g) {
  const bool fits = x && x.rank() == 3 && g.rows > 0 && g.columns > 0 && x.size(1) % g.rows == 0 &&
                    x.size(2) % g.columns == 0;
  if (fits) return;
  throw Error(call, "expected [·,Y,X], its sides multiples of " + std::to_string(g.rows) + " and " +
                        std::to_string(g.columns) + ", found " +
                        (x ? to_string(x.shape()) : "nothing"));
}

}  // namespace

Tensor patches_of(const Tensor& x, const Grid& g) {
  expect_places("patches_of", x, g);
  const int64_t C = x.size(0), h = x.size(1) / g.rows, w = x.size(2) / g.columns;
  return x.reshape({C, g.rows, h, g.columns, w})
      .permute({1, 3, 0, 2, 4})
      .reshape({g.rows * g.columns, C * h * w});
}

Tensor pictures_of(const Tensor& patches, const Grid& g, const Shape& picture) {
  const int64_t R = patches.size(0), C = picture[0], h = picture[1] / g.rows,
                w = picture[2] / g.columns;
  return patches.reshape({R, g.rows, g.columns, C, h, w})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({R, C, picture[1], picture[2]});
}

Tensor summed(const Tensor& values, const Grid& g) {
  expect_places("summed", values, g);
  const int64_t T = values.size(0), h = values.size(1) / g.rows, w = values.size(2) / g.columns;
  return sum(values.reshape({T, g.rows, h, g.columns, w}), {2, 4});
}

}  // namespace fovea::explain
