#include "fovea/ops.h"
#include "models/decoder.h"
#include "models/screen.h"

namespace fovea::models {
namespace {

// Each sentence in K rows, next to each other.
Encoded repeated(const Encoded& e, int64_t K) {
  if (K == 1) return e;
  const int64_t B = e.lengths.size(0);
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < B; ++b) rows.insert(rows.end(), static_cast<size_t>(K), b);
  return select_rows(e, Tensor::from_ids(rows, {B * K}));
}

// The decoder as a search asks it.
class Translating : public Generator {
 public:
  Translating(const Seq2Seq& m, const Encoded& encoded, const DecodeConfig& c,
              const Intervention& intervention)
      : model_(m),
        decoder_(m, repeated(encoded, c.beam),
                 {.keep_weights = c.weights || c.places, .intervention = intervention}) {
    if (may_screen(m, c.beam, encoded.lengths.size(0))) screen_ = m.screen->of(m.output);
  }

  void advance(const Tensor& tokens) override {
    const Tensor y = model_.target(tokens);
    const Decoder::Step s = decoder_.step(decoder_.gates(y));
    Look look = s.look;
    if (decoder_.looks_once()) look = decoder_.looker().step(s.state, t_);
    ++t_;
    weights_ = look.weights;
    const Tensor context = decoder_.fixed() ? decoder_.fixed() : look.context;
    out_ = s.out ? s.out : read_out(model_, s.state, context, y);
  }

  Tensor logits() override { return model_.output(out_); }
  Tensor weights() override { return weights_; }
  void select_rows(const Tensor& ids) override { decoder_.select_rows(ids); }

  std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never) override {
    if (!screen_) return std::nullopt;
    const float* out = raw(out_) + row * out_.size(1);
    const auto c = kernels::choose(*screen_, matrix_of(model_.output), out, never);
    if (!c) return std::nullopt;
    return Likeliest{c->row, static_cast<double>(c->logit) - c->log_sum};
  }

 private:
  // A screen reads a quarter of the layer, and for each row again.
  static bool may_screen(const Seq2Seq& m, int64_t beams, int64_t sentences) {
    constexpr int64_t kRows = 3, kFewest = 1024, kSmallest = 1 << 20;
    const int64_t V = m.config.target_vocabulary;
    return m.screen && beams == 1 && sentences <= kRows && V >= kFewest &&
           V * m.config.hidden >= kSmallest;
  }

  const Seq2Seq& model_;
  Decoder decoder_;
  std::shared_ptr<const kernels::Screen> screen_;
  Tensor out_, weights_;  // o_t [B·K,H], [B·K,S]
  int64_t t_ = 0;
};

}  // namespace

std::vector<std::vector<Decoded>> decode(const Seq2Seq& m, const Tensor& source,
                                         const Tensor& source_lengths, const DecodeConfig& c,
                                         const Intervention& intervention) {
  check(c);
  const NoGrad off;
  Translating generator(m, encode(m, source, source_lengths), c, intervention);
  const std::vector<int64_t> lengths = source_lengths.to_ids();
  Sequences sequences{.end = kEnd, .never = {kPadding, kBegin}};
  for (const int64_t S : lengths) {
    sequences.first.push_back(kBegin);
    sequences.limits.push_back(2 * S + 10);
  }
  auto all = search(generator, sequences, c);
  for (size_t b = 0; b < all.size(); ++b) {
    for (Decoded& d : all[b]) {
      for (std::vector<float>& row : d.weights) row.resize(static_cast<size_t>(lengths[b]));
    }
  }
  return all;
}

}  // namespace fovea::models
