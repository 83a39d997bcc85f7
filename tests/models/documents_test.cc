#include "fovea/documents.h"

#include <cmath>

#include "models/tiny.h"
#include "tests/host.h"

// A classifier of documents of a few hundred weights.
namespace fovea::models::tests {
namespace {

constexpr int64_t kDocumentWords = 13, kClasses = 3;

std::vector<DocumentIds> some() {
  return {
      {{4, 7, 5}, {9, 6, 8, 10, 4, 5}, {12}}, {{6, 11}}, {{5, 4}, {8, 8, 9}, {10, 1, 4, 6}, {7}}};
}
const std::vector<int64_t> kLabels = {2, 0, 1};

DocumentConfig config_of(DocumentModel model, const std::string& score = "additive",
                         const std::string& weighting = "softmax") {
  DocumentConfig c;
  c.model = model;
  c.score = score;
  c.weighting = weighting;
  c.vocabulary = kDocumentWords;
  c.classes = kClasses;
  c.embedding = 4;
  c.hidden = 3;
  c.longest_source = 16;
  c.transformer = {.blocks = 1, .depth = 4, .heads = 2};
  return c;
}
constexpr DocumentModel kDocumentModels[] = {DocumentModel::hierarchical, DocumentModel::flat,
                                             DocumentModel::transformer, DocumentModel::mean};

Documents spread_out(const DocumentConfig& c) {
  Documents m = documents(c, 1);
  uint64_t seed = 100;
  const NoGrad off;
  for (const auto& [name, t] : m.weights.all()) {
    Tensor(t).copy_(Tensor::randn(t.shape(), ++seed) * 0.6f);
  }
  return m;
}

DocumentBatch batch(const DocumentConfig& c, const std::vector<DocumentIds>& documents,
                    Grouping grouping = Grouping::by_length) {
  std::vector<const DocumentIds*> rows;
  for (const DocumentIds& d : documents) rows.push_back(&d);
  DocumentBatch b = batch_of(c, rows, grouping);
  if (documents.size() == kLabels.size()) b.classes = Tensor::from_ids(kLabels, {3});
  return b;
}

// The same batch with more steps and more sentences past every end, and ids that would show there.
DocumentBatch padded(const DocumentBatch& b, int64_t id) {
  DocumentBatch wide = b;
  for (SentenceGroup& g : wide.groups) {
    const int64_t W = g.ids.size(0), n = g.ids.size(1);
    const std::vector<int64_t> ids = g.ids.to_ids(), lengths = g.lengths.to_ids();
    std::vector<int64_t> more(static_cast<size_t>((W + 3) * n), id);
    for (int64_t t = 0; t < W; ++t) {
      for (int64_t i = 0; i < n; ++i) {
        if (t < lengths[static_cast<size_t>(i)]) {
          more[static_cast<size_t>(t * n + i)] = ids[static_cast<size_t>(t * n + i)];
        }
      }
    }
    g.ids = Tensor::from_ids(more, {W + 3, n});
  }
  const int64_t S = b.places.size(0), B = b.places.size(1);
  const std::vector<int64_t> places = b.places.to_ids(), lengths = b.lengths.to_ids();
  std::vector<int64_t> more(static_cast<size_t>((S + 2) * B), 1);
  for (int64_t s = 0; s < S; ++s) {
    for (int64_t i = 0; i < B; ++i) {
      if (s < lengths[static_cast<size_t>(i)]) {
        more[static_cast<size_t>(s * B + i)] = places[static_cast<size_t>(s * B + i)];
      }
    }
  }
  wide.places = Tensor::from_ids(more, {S + 2, B});
  return wide;
}

void expect_equal(const Tensor& a, const Tensor& b, float tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<float> x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << i;
}

TEST(Documents, PaddingHasNoInfluence) {
  for (const DocumentModel model : kDocumentModels) {
    for (const Listed& score : list_scores()) {
      SCOPED_TRACE(std::string(name_of(model)) + ", " + score.name);
      const DocumentConfig c = config_of(model, score.name);
      const Documents m = spread_out(c);
      const Tensor alone = classify(m, batch(c, some())).logits;
      expect_equal(classify(m, padded(batch(c, some()), 3)).logits, alone, 1e-6f);
      expect_equal(classify(m, padded(batch(c, some()), 11)).logits, alone, 1e-6f);
    }
  }
}

TEST(Documents, ABatchIsItsDocuments) {
  for (const DocumentModel model : kDocumentModels) {
    const DocumentConfig c = config_of(model);
    const Documents m = spread_out(c);
    const std::vector<DocumentIds> all = some();
    for (const Grouping grouping : {Grouping::by_length, Grouping::one}) {
      const Tensor together = classify(m, batch(c, all, grouping)).logits;
      for (size_t i = 0; i < all.size(); ++i) {
        expect_equal(classify(m, batch(c, {all[i]})).logits.select(0, 0),
                     together.select(0, static_cast<int64_t>(i)), 2e-6f);
      }
    }
  }
}

// By hand, from the formulas above the model: the words' and the sentences' weights sum to 1, and
// the vector is the weighted sum.
TEST(Documents, WeightsAreThoseOfTheSum) {
  for (const DocumentModel model : {DocumentModel::hierarchical, DocumentModel::flat}) {
    const DocumentConfig c = config_of(model);
    const Documents m = spread_out(c);
    const DocumentBatch b = batch(c, some(), Grouping::one);
    const Classified r = classify(m, b, {.keep_weights = true});
    ASSERT_EQ(r.words.size(), 1u);
    for (const float s : sum(r.words[0], {1}).to_vector()) EXPECT_NEAR(s, 1.0f, 1e-6f);
    EXPECT_EQ(static_cast<bool>(r.sentences), model == DocumentModel::hierarchical);
    if (!r.sentences) continue;
    for (const float s : sum(r.sentences, {1}).to_vector()) EXPECT_NEAR(s, 1.0f, 1e-6f);
    const std::vector<int64_t> lengths = b.lengths.to_ids();
    for (int64_t d = 0; d < 3; ++d) {
      for (int64_t s = lengths[static_cast<size_t>(d)]; s < r.sentences.size(1); ++s) {
        EXPECT_EQ(r.sentences.select(0, d).select(0, s).item(), 0.0f);
      }
    }
  }
}

TEST(Documents, TheMeanIsTheMean) {
  const DocumentConfig c = config_of(DocumentModel::mean);
  const Documents m = spread_out(c);
  const Tensor logits = classify(m, batch(c, {{{4, 7}, {5}}})).logits;
  const Tensor v = mean(m.embedding(Tensor::from_ids(std::vector<int64_t>{4, 7, 5}, {3})), {0});
  expect_equal(logits.select(0, 0), m.output(v.unsqueeze(0)).select(0, 0), 1e-6f);
}

TEST(Documents, OrderMattersToWhatReads) {
  for (const DocumentModel model : kDocumentModels) {
    const DocumentConfig c = config_of(model);
    const Documents m = spread_out(c);
    const auto logits = [&](const DocumentIds& d) {
      return classify(m, batch(c, {d})).logits.to_vector();
    };
    const std::vector<float> a = logits({{4, 7, 5}, {9, 6}}), b = logits({{9, 6}, {4, 7, 5}}),
                             joined = logits({{4, 7, 5, 9, 6}});
    const bool reads = model != DocumentModel::mean, levels = model == DocumentModel::hierarchical;
    EXPECT_EQ(std::abs(a[0] - b[0]) > 1e-4f, reads) << name_of(model);
    EXPECT_EQ(std::abs(a[0] - joined[0]) > 1e-4f, levels) << name_of(model);
  }
}

double loss_at(const Documents& m, const DocumentBatch& b) {
  const std::vector<float> logits = classify(m, b).logits.to_vector();
  double total = 0;
  for (size_t i = 0; i < kLabels.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < kClasses; ++k)
      sum += std::exp(static_cast<double>(logits[i * kClasses + k]));
    total +=
        std::log(sum) - static_cast<double>(logits[i * kClasses + static_cast<size_t>(kLabels[i])]);
  }
  return total / static_cast<double>(kLabels.size());
}

// Every learned tensor against the slope of the loss, by central differences.
TEST(Documents, GradientsAreSlopes) {
  for (const DocumentModel model : kDocumentModels) {
    for (const char* score : {"additive", "scaled_dot", "multiplicative", "location"}) {
      if (model == DocumentModel::mean && std::string(score) != "additive") continue;
      for (const char* weighting : {"softmax", "sparsemax"}) {
        const DocumentConfig c = config_of(model, score, weighting);
        SCOPED_TRACE(std::string(name_of(model)) + ", " + score + ", " + weighting);
        const Documents m = spread_out(c);
        const DocumentBatch b = batch(c, some());
        const DocumentLoss l = loss(m, b, {});
        EXPECT_NEAR(l.loss.item(), loss_at(m, b), 1e-5);
        EXPECT_NEAR(l.nll, 3 * loss_at(m, b), 3e-5);
        l.loss.backward();
        for (const auto& [name, t] : m.weights.learned()) {
          Tensor tensor = t;
          const std::vector<float> g = t.grad() ? t.grad().to_vector() : std::vector<float>();
          for (int64_t i = 0; i < t.numel(); i += 1 + t.numel() / 5) {
            const NoGrad off;
            constexpr float kStep = 4e-3f;
            const auto put = [&](float x) {
              test::edit<float>(tensor, [&](float* at) { at[i] = x; });
            };
            const float before = tensor.to_vector()[static_cast<size_t>(i)];
            put(before + kStep);
            const double up = loss_at(m, b);
            put(before - kStep);
            const double down = loss_at(m, b);
            put(before);
            const double slope = (up - down) / (2 * static_cast<double>(kStep));
            EXPECT_NEAR(g.empty() ? 0.0f : g[static_cast<size_t>(i)], slope,
                        3e-4 + 1e-2 * std::abs(slope))
                << name << "[" << i << "]";
          }
        }
      }
    }
  }
}

TEST(Documents, InterventionsSeeBothLevels) {
  const DocumentConfig c = config_of(DocumentModel::hierarchical);
  const Documents m = spread_out(c);
  const DocumentBatch b = batch(c, some(), Grouping::one);
  const Classified own = classify(m, b, {.keep_weights = true});
  int words = 0, sentences = 0;
  const auto reads = [](int& calls) {
    return [&calls](const Weighed& w) {
      ++calls;
      return w.weights;
    };
  };
  const Classified read = classify(m, b, {.words = reads(words), .sentences = reads(sentences)});
  EXPECT_EQ(words, 1);
  EXPECT_EQ(sentences, 1);
  expect_equal(read.logits, own.logits, 2e-6f);
  const Classified again =
      classify(m, b,
               {.words = interventions::given(own.words[0].unsqueeze(1)),
                .sentences = interventions::given(own.sentences.unsqueeze(1))});
  expect_equal(again.logits, own.logits, 2e-6f);
  const Classified uniform = classify(m, b,
                                      {.keep_weights = true,
                                       .words = interventions::uniform(),
                                       .sentences = interventions::uniform()});
  EXPECT_GT(std::abs(uniform.logits.to_vector()[0] - own.logits.to_vector()[0]), 1e-4f);
  EXPECT_NEAR(uniform.sentences.to_vector()[0], 1.0f / 3, 1e-6f);
}

TEST(Documents, EveryScoreAndWeightingLearns) {
  for (const Listed& score : list_scores()) {
    for (const Listed& weighting : list_weightings()) {
      SCOPED_TRACE(score.name + ", " + weighting.name);
      const DocumentConfig c = config_of(DocumentModel::hierarchical, score.name, weighting.name);
      const Documents m = documents(c, 3);
      DocumentLossConfig how;
      how.dropout = 0.2f;
      how.word_dropout = 0.2f;
      how.seed = 5;
      const DocumentLoss l = loss(m, batch(c, some()), how);
      ASSERT_TRUE(std::isfinite(l.loss.item()));
      l.loss.backward();
      const Tensor g = m.weights.learned().at("words.embedding.weight").grad();
      ASSERT_TRUE(g && all_finite(g));
      EXPECT_GT(sum(square(g)).item(), 0.0f);
      // The same seed draws the same.
      EXPECT_EQ(loss(m, batch(c, some()), how).nll, l.nll);
    }
  }
}

// Where a choice decides: hard attention must find the one word that says the class.
TEST(Documents, HardAttentionLearnsWhereToLook) {
  DocumentConfig c = config_of(DocumentModel::flat, "additive", "sample");
  c.classes = 2;
  const Documents m = documents(c, 7);
  std::vector<DocumentIds> all;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 24; ++i) {
    SentenceIds words;
    for (int64_t w = 0; w < 6; ++w) words.push_back(6 + (i * 5 + w * 7) % 7);
    words[static_cast<size_t>(i % 6)] = 4 + i / 6 % 2;
    all.push_back({words});
    labels.push_back(i / 6 % 2);
  }
  DocumentBatch b = batch(c, all);
  b.classes = Tensor::from_ids(labels, {24});
  for (int step = 1; step <= 300; ++step) {
    for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
    DocumentLossConfig how;
    how.seed = static_cast<uint64_t>(step);
    loss(m, b, how).loss.backward();
    const NoGrad off;
    for (const auto& [name, t] : m.weights.learned()) {
      if (t.grad()) Tensor(t).add_(t.grad(), -0.5f);
    }
  }
  const std::vector<float> logits = classify(m, b).logits.to_vector();
  int right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    right += (logits[2 * i + 1] > logits[2 * i]) == (labels[i] == 1);
  }
  EXPECT_GE(right, 22);
}

TEST(Documents, SketchHasTheSameShapes) {
  for (const DocumentModel model : kDocumentModels) {
    const DocumentConfig c = config_of(model);
    const nn::Weights drawn = documents(c, nn::Weights::sketch()).weights;
    const Documents m = documents(c, 1);
    EXPECT_EQ(drawn.count(), m.weights.count());
    for (const auto& [name, t] : m.weights.all())
      EXPECT_EQ(drawn.all().at(name).shape(), t.shape());
  }
}

TEST(Documents, ErrorsSayWhatIsWrong) {
  DocumentConfig c = config_of(DocumentModel::hierarchical);
  EXPECT_EQ(error_of([&] { document_model("flatt"); }),
            "[documents] no model 'flatt'; there are hierarchical, flat, transformer, mean, first");
  EXPECT_EQ(error_of([&] { batch(c, {}); }), "[batch_of] there are no documents");
  EXPECT_EQ(error_of([&] { batch(c, {{{4}}, {}}); }), "[batch_of] document 1 has no sentences");
  EXPECT_EQ(error_of([&] {
              batch(c, {{{4}, {}}});
            }),
            "[batch_of] document 0 has an empty sentence");
  c.hidden = 0;
  EXPECT_EQ(error_of([&] { documents(c, 1); }),
            "[documents] hidden must be in [1, 16384], found 0");
}

}  // namespace
}  // namespace fovea::models::tests
