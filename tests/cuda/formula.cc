// Attention as it is written, in float64, row by row; heads of different keys in parallel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "case.h"
#include "core/random.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct RowResult {
  std::vector<double> s, t, p, w;   // scores, capped tanh, weights before and after dropout
  double stat = -kInf, sink = 0.0;  // and the sink's weight
};

class Formula {
 public:
  explicit Formula(const Numbers& n) : n_(n), p_(n.problem) {
    out_.context.resize(p_.rows() * p_.Dv);
    out_.stat.resize(p_.rows());
    out_.dq.resize(p_.rows() * p_.D);
    out_.dk.resize(p_.B * p_.Hk * p_.Lk * p_.D);
    out_.dv.resize(p_.B * p_.Hk * p_.Lk * p_.Dv);
    out_.du.resize(n.u.size());
    out_.dbias.resize(n.bias.size());
    out_.dsink.resize(n.sink.empty() ? 0 : p_.rows());
  }

  Outputs run() {
    const int64_t units = p_.B * p_.Hk;
    const int64_t workers =
        std::min<int64_t>(units, std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::vector<double>> du(workers, std::vector<double>(n_.u.size()));
    std::vector<std::vector<double>> dbias(workers, std::vector<double>(n_.bias.size()));
    std::vector<std::thread> threads;
    for (int64_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        for (int64_t unit = w; unit < units; unit += workers) {
          for (int64_t h = 0; h < p_.group(); ++h) {
            for (int64_t i = 0; i < p_.Lq; ++i) {
              row(unit / p_.Hk, unit % p_.Hk * p_.group() + h, i, du[w], dbias[w]);
            }
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (int64_t w = 0; w < workers; ++w) {
      for (size_t a = 0; a < out_.du.size(); ++a) out_.du[a] += du[w][a];
      for (size_t i = 0; i < out_.dbias.size(); ++i) out_.dbias[i] += dbias[w][i];
    }
    return std::move(out_);
  }

 private:
  template <class T>
  static double at(const kernels::View<T>& v, int64_t b, int64_t h, int64_t i, int64_t j) {
    return v.row(b, h, i)[j * v.c];
  }

  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (p_.begin && (j < *p_.begin.row(b, h, i) || j >= *p_.end.row(b, h, i))) return false;
    if (p_.allowed && at(p_.allowed, b, h, i, j) == 0) return false;
    return !p_.bias || at(p_.bias, b, h, i, j) > -kInf;
  }

  double score(int64_t b, int64_t h, int64_t hk, int64_t i, int64_t j) const {
    double sum = 0.0;
    for (int64_t a = 0; a < p_.D; ++a) {
      const double q = at(p_.q, b, h, i, a), k = at(p_.k, b, hk, j, a);
      sum += p_.family == Family::dot ? q * k : double(p_.u[a]) * std::tanh(q + k);
    }
    return sum;
  }

  // ds of one pair into dq, dk and du.
  void add_factors(int64_t b, int64_t h, int64_t i, int64_t j, double ds, std::vector<double>& du) {
    const int64_t hk = h / p_.group(), at_row = (b * p_.H + h) * p_.Lq + i;
    double* const dq = out_.dq.data() + at_row * p_.D;
    double* const dk = out_.dk.data() + ((b * p_.Hk + hk) * p_.Lk + j) * p_.D;
    for (int64_t a = 0; a < p_.D; ++a) {
      const double q = at(p_.q, b, h, i, a), k = at(p_.k, b, hk, j, a);
      if (p_.family == Family::dot) {
        dq[a] += ds * k;
        dk[a] += ds * q;
        continue;
      }
      const double t = std::tanh(q + k), through = ds * p_.u[a] * (1.0 - t * t);
      dq[a] += through;
      dk[a] += through;
      du[a] += ds * t;
    }
  }

  RowResult weigh(int64_t b, int64_t h, int64_t i) const {
    const int64_t hk = h / p_.group();
    RowResult r;
    r.s.assign(p_.Lk, -kInf);
    r.t = r.p = r.w = std::vector<double>(p_.Lk);
    for (int64_t j = 0; j < p_.Lk; ++j) {
      if (!sees(b, h, i, j)) continue;
      double raw = p_.scale * score(b, h, hk, i, j);
      if (p_.softcap > 0.0f) {
        r.t[j] = std::tanh(raw / p_.softcap);
        raw = p_.softcap * r.t[j];
      }
      if (p_.bias) raw += at(p_.bias, b, h, i, j);
      r.s[j] = raw / p_.temperature;
    }
    const double sink = p_.sink ? double(p_.sink[h]) / p_.temperature : -kInf;
    const double most = std::max(*std::max_element(r.s.begin(), r.s.end()), sink);
    if (most == -kInf) return r;
    double sum = std::exp(sink - most);
    for (const double s : r.s) sum += std::exp(s - most);
    r.stat = most + std::log(sum);
    r.sink = std::exp(sink - r.stat);
    const RandomKey key = random_key(p_.seed, Purpose::weight_dropout, p_.first.b + b,
                                     p_.first.h + h, p_.first.i + i);
    const auto below = static_cast<uint32_t>(static_cast<double>(p_.dropout) * 4294967296.0);
    for (int64_t j = 0; j < p_.Lk; ++j) {
      r.p[j] = std::exp(r.s[j] - r.stat);
      const bool kept = p_.dropout == 0.0f || bits32(key, j) >= below;
      r.w[j] = kept ? r.p[j] / (1.0 - p_.dropout) : 0.0;
    }
    return r;
  }

  void row(int64_t b, int64_t h, int64_t i, std::vector<double>& du, std::vector<double>& dbias) {
    const int64_t hk = h / p_.group(), at_row = (b * p_.H + h) * p_.Lq + i;
    const RowResult r = weigh(b, h, i);
    out_.stat[at_row] = r.stat;
    double* const context = out_.context.data() + at_row * p_.Dv;
    std::vector<double> d_out(p_.Dv), dw(p_.Lk);
    for (int64_t d = 0; d < p_.Dv; ++d) d_out[d] = at(n_.d_context_view, b, h, i, d);
    double mean = 0.0;
    for (int64_t j = 0; j < p_.Lk; ++j) {
      if (r.w[j] == 0.0) continue;
      double* const dv = out_.dv.data() + ((b * p_.Hk + hk) * p_.Lk + j) * p_.Dv;
      for (int64_t d = 0; d < p_.Dv; ++d) {
        const double value = at(p_.v, b, hk, j, d);
        context[d] += r.w[j] * value;
        dv[d] += r.w[j] * d_out[d];
        dw[j] += d_out[d] * value;
      }
      mean += r.w[j] * dw[j];
    }
    const double beta = (n_.d_stat.empty() ? 0.0 : double(n_.d_stat[at_row])) - mean;
    if (p_.sink) out_.dsink[at_row] = r.sink * beta;
    for (int64_t j = 0; j < p_.Lk; ++j) {
      if (r.p[j] == 0.0) continue;
      double ds = r.p[j] * beta + r.w[j] * dw[j];
      if (p_.bias) {
        const float* const to = p_.bias.row(b, h, i) + j * p_.bias.c;
        dbias[to - n_.bias.data()] += ds / p_.temperature;
      }
      if (p_.softcap > 0.0f) ds *= 1.0 - r.t[j] * r.t[j];
      add_factors(b, h, i, j, ds * p_.scale / p_.temperature, du);
    }
  }

  const Numbers& n_;
  const kernels::AttentionProblem& p_;
  Outputs out_;
};

}  // namespace

Outputs by_formula(const Numbers& n) { return Formula(n).run(); }

}  // namespace fovea::test
