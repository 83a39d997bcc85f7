#include "fovea/rank.h"

#include <cmath>
#include <optional>

#include "explain/ways.h"

namespace fovea::explain {
namespace {

// Rows of doubles, so that the mean adds no rounding of its own.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> values;
};

Matrix matrix_of(const Tensor& x) {
  const std::vector<float> values = x.to_vector();
  return {x.size(0), x.size(1), {values.begin(), values.end()}};
}

// Unlike std::max, keeps a NaN.
double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }

// √(‖X‖₁‖X‖∞): the largest column sum of |x| and the largest row sum.
double norm_of(const Matrix& m) {
  std::vector<double> columns(static_cast<size_t>(m.columns), 0.0);
  double largest_row = 0, largest_column = 0;
  const double* x = m.values.data();
  for (int64_t i = 0; i < m.rows; ++i) {
    double row = 0;
    for (double& column : columns) {
      const double size = std::abs(*x++);
      row += size, column += size;
    }
    largest_row = larger(largest_row, row);
  }
  for (const double column : columns) largest_column = larger(largest_column, column);
  return std::sqrt(largest_row) * std::sqrt(largest_column);
}

// X − 1·mean
Matrix residual_of(Matrix m) {
  std::vector<double> mean(static_cast<size_t>(m.columns), 0.0);
  const double* in = m.values.data();
  for (int64_t i = 0; i < m.rows; ++i) {
    for (double& sum : mean) sum += *in++;
  }
  for (double& sum : mean) sum /= static_cast<double>(m.rows);
  double* out = m.values.data();
  for (int64_t i = 0; i < m.rows; ++i) {
    for (const double value : mean) *out++ -= value;
  }
  return m;
}

}  // namespace

double relative_residual(const Tensor& rows) {
  if (!rows || rows.rank() != 2 || rows.dtype() != DType::f32) {
    throw Error("relative_residual",
                "rows must be f32 [L,W], found " + (rows ? to_string(rows.shape()) : "nothing"));
  }
  const Matrix x = matrix_of(rows);
  const double whole = norm_of(x);
  return whole == 0 ? 0 : norm_of(residual_of(x)) / whole;
}

std::vector<RankCurve> rank(const models::Transformer& m, const Tensor& ids, const Tensor& lengths,
                            const RankProgress& progress) {
  const NoGrad off;
  const bool encodes = !m.encoder.blocks.empty();
  const auto blocks = static_cast<int64_t>((encodes ? m.encoder : m.decoder).blocks.size());
  std::optional<Ways> ways;
  const models::TransformerPass pass = {
      .block = [&](const nn::Block& b, const Tensor& x, const nn::BlockPass& how) {
        if (!ways) ways.emplace(x, lengths, blocks, progress);
        ways->step(b, how);
        return x;
      }};
  if (encodes) {
    models::encode(m, ids, lengths, pass);
  } else {
    models::decode_all(m, ids, {}, pass);
  }
  return ways->curves();
}

}  // namespace fovea::explain
