#include <algorithm>

#include "report/label.h"
#include "report/picture.h"
#include "report/seen.h"

namespace fovea::report {
namespace {

constexpr int64_t kMost = 16;  // rows and columns of a look
constexpr int kCell = 2;       // columns of the terminal that a place takes
constexpr int kBetween = 2;    // looks

// A look whose places are `side` times as wide and high: sums.
SeenImage::Look coarser(const SeenImage& seen, const SeenImage::Look& look, int64_t side) {
  const int64_t columns = (seen.columns + side - 1) / side, rows = (seen.rows + side - 1) / side;
  SeenImage::Look found{look.label, std::vector<float>(static_cast<size_t>(rows * columns))};
  for (int64_t n = 0; n < seen.rows * seen.columns; ++n) {
    const int64_t place = n / seen.columns / side * columns + n % seen.columns / side;
    found.weights[static_cast<size_t>(place)] += look.weights[static_cast<size_t>(n)];
  }
  return found;
}

}  // namespace

std::string to_text(const SeenImage& seen, Ink ink, int width) {
  check(seen);
  const int64_t side = (std::max(seen.rows, seen.columns) + kMost - 1) / kMost;
  std::vector<SeenImage::Look> looks;
  for (const SeenImage::Look& look : seen.looks) {
    if (!look.weights.empty()) looks.push_back(coarser(seen, look, side));
  }
  const auto columns = static_cast<size_t>((seen.columns + side - 1) / side),
             rows = static_cast<size_t>((seen.rows + side - 1) / side);
  const int wide = static_cast<int>(columns) * kCell;
  const auto across = static_cast<size_t>(std::max((width + kBetween) / (wide + kBetween), 1));
  std::string text;
  for (size_t begin = 0; begin < looks.size(); begin += across) {
    const size_t end = std::min(begin + across, looks.size());
    for (size_t n = begin; n < end; ++n) {
      const std::string label = cut(visible(looks[n].label), wide);
      text += n + 1 == end ? label : padded(label, wide + kBetween);
    }
    text += "\n";
    for (size_t y = 0; y < rows; ++y) {
      for (size_t n = begin; n < end; ++n) {
        const auto full = static_cast<float>(full_weight(looks[n], seen.scale));
        for (size_t x = 0; x < columns; ++x) {
          const float share = looks[n].weights[y * columns + x] / full;
          text += cell_of(seen.scale == Scale::from_zero ? std::max(share, 0.0f) : share, ink);
        }
        if (n + 1 < end) text += std::string(kBetween, ' ');
      }
      text += "\n";
    }
    if (end < looks.size()) text += "\n";
  }
  return text;
}

}  // namespace fovea::report
