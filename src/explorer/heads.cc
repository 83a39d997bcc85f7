#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "fovea/error.h"
#include "io/base64.h"
#include "io/json.h"
#include "report/packed.h"

// The heads of a Transformer: all of them small, and what it says where some are switched off.
namespace fovea::explorer {
namespace {

constexpr int64_t kThumb = 64;  // cells of a side, at most
constexpr int64_t kMostWeights = int64_t{1} << 22;

// The weights of one head, rows × columns.
struct Weights {
  const float* at;
  int64_t rows, columns;
  double operator()(int64_t i, int64_t j) const { return static_cast<double>(at[i * columns + j]); }
};

// The largest weight of each part, as a share of the largest of all, in bytes: a mean would lose
// the peaks.
Json thumb_of(const Weights& w, double largest) {
  const int64_t rows = std::min(w.rows, kThumb), columns = std::min(w.columns, kThumb);
  std::string bytes(static_cast<size_t>(rows * columns), '\0');
  std::vector<double> most(bytes.size(), 0.0);
  for (int64_t i = 0; i < w.rows; ++i) {
    for (int64_t j = 0; j < w.columns; ++j) {
      double& part =
          most[static_cast<size_t>(i * rows / w.rows * columns + j * columns / w.columns)];
      part = std::max(part, w(i, j));
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(std::lround(255 * (largest > 0 ? most[i] / largest : 0.0)));
  }
  return {{"rows", rows}, {"columns", columns}, {"bytes", to_base64(bytes)}};
}

// Means over rows: entropy as a share of log n (n the columns with any weight), how far away it
// looks, and how much of it goes to the row before, to its own and to the first.
struct Kind {
  double entropy = 0, distance = 0, before = 0, own = 0, first = 0, largest = 0;
};
Kind kind_of(const Weights& w) {
  Kind k;
  for (int64_t i = 0; i < w.rows; ++i) {
    double h = 0, away = 0, n = 0;
    for (int64_t j = 0; j < w.columns; ++j) {
      const double p = w(i, j);
      k.largest = std::max(k.largest, p);
      if (p <= 0) continue;
      h -= p * std::log(p);
      away += p * static_cast<double>(std::abs(i - j));
      n += 1;
    }
    k.entropy += n > 1 ? h / std::log(n) : 0;
    k.distance += away;
    k.first += w(i, 0);
    if (i < w.columns) k.own += w(i, i);
    if (i > 0 && i <= w.columns) k.before += w(i, i - 1);
  }
  const auto rows = static_cast<double>(std::max<int64_t>(w.rows, 1));
  return {k.entropy / rows, k.distance / rows, k.before / rows,
          k.own / rows,     k.first / rows,    k.largest};
}

// What a head does, where one word says it.
const char* pattern_of(const Kind& k) {
  constexpr double kMuch = 0.5, kEven = 0.9;
  if (k.before > kMuch) return "previous";
  if (k.own > kMuch) return "own";
  if (k.first > kMuch) return "first";
  return k.entropy > kEven ? "diffuse" : "";
}

Json json_of(const Weights& w) {
  const Kind k = kind_of(w);
  return {{"thumb", thumb_of(w, k.largest)},
          {"entropy", k.entropy},
          {"distance", k.distance},
          {"largest", k.largest},
          {"pattern", pattern_of(k)}};
}

std::vector<tasks::HeadOff> off_in(const Json& asked) {
  std::vector<tasks::HeadOff> off;
  for (const Json& j : asked.at("off")) {
    const auto head = std::max<int64_t>(whole_number(j.at("head")), 0);  // 0 is refused below
    off.push_back({j.at("layer").get<std::string>(), head - 1});
  }
  return off;
}

}  // namespace

Json heads(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  if (!inside.hooked || !inside.attention) throw Error("heads", "this model has no heads to show");
  Json layers = Json::array();
  const std::vector<tasks::LayerSeen> seen = inside.attention();
  for (const size_t i : tasks::natural_order(seen)) {
    const tasks::LayerSeen& l = seen[i];
    if (l.weights.size(0) < 2 && l.name == "look") continue;
    const std::vector<float> all = l.weights.to_vector();
    const int64_t rows = l.weights.size(1), columns = l.weights.size(2);
    Json heads = Json::array();
    for (int64_t h = 0; h < l.weights.size(0); ++h) {
      heads.push_back(json_of(Weights{all.data() + h * rows * columns, rows, columns}));
    }
    layers.push_back({{"name", l.name},
                      {"title", title_of(l)},
                      {"rows", rows},
                      {"columns", columns},
                      {"heads", heads}});
  }
  return {{"title", inside.title}, {"layers", layers}};
}

Json layer_weights(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  if (!inside.attention) throw Error("weights", "this model has no attention to show");
  const std::string wanted = asked.value("layer", "");
  const std::vector<tasks::LayerSeen> seen = inside.attention();
  Json layers = Json::array();
  for (const size_t i : tasks::natural_order(seen)) {
    layers.push_back({{"name", seen[i].name}, {"title", title_of(seen[i])}});
  }
  const auto found = std::find_if(seen.begin(), seen.end(), [&](const tasks::LayerSeen& l) {
    return wanted.empty() || l.name == wanted;
  });
  if (found == seen.end()) {
    throw Error("weights", fmt::format("there is no layer \"{}\"", wanted));
  }
  if (found->weights.numel() > kMostWeights) {
    throw Error("weights", fmt::format("the layer has {} weights, at most {} are sent; ask about a "
                                       "shorter text",
                                       found->weights.numel(), kMostWeights));
  }
  Json answer = {{"name", found->name}, {"title", title_of(*found)},
                 {"layers", layers},    {"heads", found->weights.size(0)},
                 {"rows", found->rows}, {"columns", found->columns}};
  report::put_weights(answer, found->weights.to_vector(), report::Numbers::exact);
  return answer;
}

Json compare(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  const tasks::QueryAndKey found =
      tasks::query_and_key(inside, {.layer = asked.at("layer").get<std::string>(),
                                    .head = whole_number(asked.at("head")) - 1,
                                    .row = whole_number(asked.at("row")),
                                    .column = whole_number(asked.at("column"))});
  return {{"query", found.query},
          {"key", found.key},
          {"scale", found.scale},
          {"weight", found.weight},
          {"whole", found.whole}};
}

Json without_heads(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  if (!inside.hooked) throw Error("heads", "this model has no heads to switch off");
  const NoGrad none;
  const Tensor own = inside.hooked({}), without = inside.hooked(tasks::without(off_in(asked)));
  const int64_t T = own.size(0), V = own.size(1);
  const std::vector<float> before = own.to_vector(), after = without.to_vector();
  Json rows = Json::array();
  for (int64_t t = 0; t < T; ++t) {
    const auto best = [&](const std::vector<float>& p) {
      return std::max_element(p.begin() + t * V, p.begin() + (t + 1) * V) - p.begin() - t * V;
    };
    const int64_t said = best(before), instead = best(after);
    const auto at = static_cast<size_t>(t * V + said);
    rows.push_back({{"output", inside.named(said)},
                    {"before", number(std::exp(static_cast<double>(before[at])))},
                    {"after", number(std::exp(static_cast<double>(after[at])))},
                    {"same", said == instead},
                    {"instead", inside.named(instead)}});
  }
  return {{"rows", rows}};
}

}  // namespace fovea::explorer
