#include "fovea/seq2seq.h"

#include "models/checks.h"
#include "models/decoder.h"

namespace fovea::models {

void check(const Seq2SeqConfig& c) {
  expect_range("seq2seq", "source_vocabulary", c.source_vocabulary, 1, 10 * kLargest);
  check(writer_of(c), "seq2seq");
}

WriterConfig writer_of(const Seq2SeqConfig& c) {
  WriterConfig w;
  static_cast<LookConfig&>(w) = c;
  w.target_vocabulary = c.target_vocabulary;
  w.embedding = c.embedding;
  w.hidden = c.hidden;
  w.layers = c.layers;
  w.cell = c.cell;
  w.context = c.context;
  w.order = c.order;
  w.input_feeding = c.input_feeding;
  return w;
}

Seq2Seq seq2seq(const Seq2SeqConfig& c, nn::Weights weights) {
  check(c);
  Seq2Seq m;
  m.config = c;
  m.weights = std::move(weights);
  nn::Weights& w = m.weights;
  m.source = nn::embedding(w, "source", c.source_vocabulary, c.embedding);
  m.encoder = nn::recurrent(w, "encoder",
                            {.cell = c.cell,
                             .input = c.embedding,
                             .hidden = c.hidden,
                             .layers = c.layers,
                             .bidirectional = c.bidirectional});
  static_cast<Writer&>(m) = writer(w, writer_of(c), c.hidden * (c.bidirectional ? 2 : 1));
  return m;
}

int64_t count_weights(const Seq2SeqConfig& c) {
  return seq2seq(c, nn::Weights::sketch()).weights.count();
}

Tensor logits(const Seq2Seq& m, const Forced& forced, const Intervention& intervention) {
  const Encoded source = encode_vectors(m, forced.source, forced.source_lengths, {});
  return logits_of({m, writer_of(m.config)}, source, forced.target_in, intervention);
}

Loss loss(const Seq2Seq& m, const Batch& batch, const LossConfig& c,
          const Intervention& intervention) {
  const Dropout drop{c.dropout, Seed(c.seed).at("dropout")};
  const Encoded source = encode(m, batch.source, batch.source_lengths, drop);
  return loss_of({m, writer_of(m.config)}, source, {batch.target_in, batch.target_out}, c,
                 intervention);
}

}  // namespace fovea::models
