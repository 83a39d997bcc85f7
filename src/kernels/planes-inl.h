// Planes [C][places] as places of channels [places][C], and back: transposes of any size.
#if defined(FOVEA_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_PLANES_INL_H_
#undef FOVEA_PLANES_INL_H_
#else
#define FOVEA_PLANES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/load-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// Neighbouring rows, of tiles those of one image after those of another.
struct RowSpan {
  int64_t first, last;
};

struct Rectangle {
  int64_t rows, cols;
};

#if FOVEA_MASKED
// Some rows and columns of a square; the last row stands for those that are not there.
struct PartOfSquare {
  const float* data;
  int64_t last, cols;
  HWY_INLINE PartOfSquare operator+(int64_t at) const {
    return {data + std::min(at, last), last, cols};
  }
};
template <class D>
HWY_INLINE hn::Vec<D> Floats(D d, PartOfSquare x) {
  return FirstFloats(d, x.data, x.cols);
}
#endif

// to[j][i] = from[i][j] of at most kSquare rows and columns.
HWY_INLINE void TransposeCorner(const float* from, int64_t row, Rectangle size, float* to,
                                int64_t to_row) {
#if FOVEA_MASKED
  const hn::FixedTag<float, kSquare> d;
  HWY_ALIGN float turned[kSquare * kSquare];
  TransposeSquare(PartOfSquare{from, (size.rows - 1) * row, size.cols}, row, Unscaled(), turned,
                  kSquare);
  const auto in_column = hn::FirstN(d, static_cast<size_t>(size.rows));
  for (int64_t j = 0; j < size.cols; ++j) {
    hn::BlendedStore(hn::Load(d, turned + j * kSquare), in_column, d, to + j * to_row);
  }
#else
  for (int64_t i = 0; i < size.rows; ++i) {
    for (int64_t j = 0; j < size.cols; ++j) to[j * to_row + i] = from[i * row + j];
  }
#endif
}

// to[j][i] = from[i][j]. Where squares do not fill a side, the last one has some of it once more.
void Transposed(const float* from, int64_t row, Rectangle size, float* to, int64_t to_row) {
  const bool squares = size.rows >= kSquare && size.cols >= kSquare;
  for (int64_t i = 0; i < size.rows; i += kSquare) {
    for (int64_t j = 0; j < size.cols; j += kSquare) {
      if (squares) {
        const int64_t y = std::min(i, size.rows - kSquare), x = std::min(j, size.cols - kSquare);
        TransposeSquare(from + y * row + x, row, Unscaled(), to + x * to_row + y, to_row);
      } else {
        TransposeCorner(from + i * row + j, row,
                        {std::min(kSquare, size.rows - i), std::min(kSquare, size.cols - j)},
                        to + j * to_row + i, to_row);
      }
    }
  }
}

// body(first, count) for kSquare channels at a time, of which planes are then read or written row
// after row: sixteen streams.
template <class Body>
HWY_INLINE void BySquares(int64_t channels, const Body& body) {
  for (int64_t c = 0; c < channels; c += kSquare) {
    const int64_t first = channels >= kSquare ? std::min(c, channels - kSquare) : 0;
    body(first, std::min(kSquare, channels));
  }
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_PLANES_INL_H_
