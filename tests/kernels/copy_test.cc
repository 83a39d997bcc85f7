#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace fovea::kernels {
namespace {

// to[j][i] = from[i][j], the rows of either further apart than they are long; what lies between is
// left alone.
template <class T>
void check_transposed(int64_t rows, int64_t cols, bool upwards) {
  SCOPED_TRACE(testing::Message() << rows << "×" << cols << (upwards ? ", rows upwards" : ""));
  const int64_t apart = cols + 5, to_row = rows + 3;
  std::vector<T> from(static_cast<size_t>(rows * apart));
  std::iota(from.begin(), from.end(), T{1});
  std::vector<T> to(static_cast<size_t>(cols * to_row), T{0});
  const int64_t row = upwards ? -apart : apart;
  T* first = from.data() + (upwards ? (rows - 1) * apart : 0);
  const int64_t shape[] = {cols, rows}, strides[] = {1, row}, into[] = {to_row, 1};
  strided_copy(shape, sizeof(T), {first, strides}, {to.data(), into});
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(to[j * to_row + i], first[i * row + j]);
    for (int64_t i = rows; i < to_row; ++i) ASSERT_EQ(to[j * to_row + i], 0u);
  }
}

TEST(StridedCopy, Transposes) {
  const int64_t sizes[] = {2, 3, 4, 5, 15, 16, 17, 20, 63, 64, 67, 130};
  for (const int64_t rows : sizes) {
    for (const int64_t cols : sizes) {
      for (const bool upwards : {false, true}) {
        check_transposed<uint32_t>(rows, cols, upwards);
        check_transposed<uint16_t>(rows, cols, upwards);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels
