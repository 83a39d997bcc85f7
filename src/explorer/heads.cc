#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "fovea/error.h"
#include "io/base64.h"
#include "io/json.h"
#include "report/packed.h"
#include "tasks/inside_blocks.h"

// The heads of a Transformer: all of them small, and what it says where some are switched off.
namespace fovea::explorer {
namespace {

constexpr int64_t kThumb = 64;  // cells of a side, at most
constexpr int64_t kMostWeights = int64_t{1} << 22;

// The largest weight of each part, as a share of the largest of all, in bytes: a mean would lose
// the peaks.
Json thumb_of(const std::vector<float>& w, int64_t w_columns, double largest) {
  const int64_t w_rows = static_cast<int64_t>(w.size()) / w_columns;
  const int64_t rows = std::min(w_rows, kThumb), columns = std::min(w_columns, kThumb);
  std::string bytes(static_cast<size_t>(rows * columns), '\0');
  std::vector<float> most(bytes.size(), 0.0f);
  for (int64_t i = 0; i < w_rows; ++i) {
    for (int64_t j = 0; j < w_columns; ++j) {
      float& part =
          most[static_cast<size_t>(i * rows / w_rows * columns + j * columns / w_columns)];
      part = std::max(part, w[static_cast<size_t>(i * w_columns + j)]);
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double share = largest > 0 ? static_cast<double>(most[i]) / largest : 0.0;
    bytes[i] = static_cast<char>(std::lround(255 * share));
  }
  return {{"rows", rows}, {"columns", columns}, {"bytes", to_base64(bytes)}};
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

// One head's weights at a time: of a long text all of them would not fit.
Json heads(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  tasks::expect_heads(inside, "heads");
  std::map<std::pair<std::string, int64_t>, Json> each;
  const auto visit = [&](const std::string& layer, int64_t head, const std::vector<float>& weights,
                         int64_t columns) {
    const float largest = *std::max_element(weights.begin(), weights.end());
    each[{layer, head}] = {{"thumb", thumb_of(weights, columns, static_cast<double>(largest))},
                           {"rows", static_cast<int64_t>(weights.size()) / columns},
                           {"columns", columns}};
  };
  const std::vector<tasks::HeadFound> found = tasks::patterns_of(inside, visit);
  Json layers = Json::array();
  for (const tasks::HeadFound& h : found) {
    Json& one = each.at({h.layer, h.head});
    if (h.head == 0) {
      layers.push_back({{"name", h.layer},
                        {"title", tasks::title_of(h.layer)},
                        {"rows", one["rows"]},
                        {"columns", one["columns"]},
                        {"heads", Json::array()}});
    }
    layers.back()["heads"].push_back({{"thumb", one["thumb"]},
                                      {"entropy", h.on_text.entropy},
                                      {"distance", h.on_text.distance},
                                      {"largest", h.on_text.largest},
                                      {"induction", h.on_repeated.induction},
                                      {"pattern", h.does}});
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
    layers.push_back({{"name", seen[i].name}, {"title", tasks::title_of(seen[i].name)}});
  }
  const auto found = std::find_if(seen.begin(), seen.end(), [&](const tasks::LayerSeen& l) {
    return wanted.empty() || l.name == wanted;
  });
  if (found == seen.end()) {
    throw Error("weights", fmt::format("there is no layer \"{}\"", wanted));
  }
  const auto rows = static_cast<int64_t>(found->rows.size()),
             columns = static_cast<int64_t>(found->columns.size());
  if (found->heads * rows * columns > kMostWeights) {
    throw Error("weights", fmt::format("the layer has {} weights, at most {} are sent; ask about a "
                                       "shorter text",
                                       found->heads * rows * columns, kMostWeights));
  }
  Json answer = {{"name", found->name}, {"title", tasks::title_of(found->name)},
                 {"layers", layers},    {"heads", found->heads},
                 {"rows", found->rows}, {"columns", found->columns}};
  report::put_weights(answer, found->weights({}).to_vector(), report::Numbers::exact);
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
  tasks::expect_heads(inside, "heads");
  tasks::expect_outputs(inside, "what is said without heads");
  const NoGrad none;
  const Tensor x = inside.x.unsqueeze(0);
  const Tensor own = inside.states(x, {}),
               without = inside.states(x, {.hook = tasks::without(off_in(asked))});
  std::vector<int64_t> places(static_cast<size_t>(own.size(1)));
  std::iota(places.begin(), places.end(), int64_t{0});
  const auto best = [](std::span<const float> log_p) {
    return std::max_element(log_p.begin(), log_p.end()) - log_p.begin();
  };
  std::vector<std::pair<int64_t, double>> before;  // what was said, and its log p
  tasks::each_log_p(inside, own, places, [&](size_t, std::span<const float> log_p) {
    before.emplace_back(best(log_p), log_p[static_cast<size_t>(best(log_p))]);
  });
  Json rows = Json::array();
  tasks::each_log_p(inside, without, places, [&](size_t i, std::span<const float> log_p) {
    const auto [said, log_before] = before[i];
    const int64_t instead = best(log_p);
    rows.push_back(
        {{"output", inside.named(said)},
         {"before", number(std::exp(log_before))},
         {"after", number(std::exp(static_cast<double>(log_p[static_cast<size_t>(said)])))},
         {"same", said == instead},
         {"instead", inside.named(instead)}});
  });
  return {{"rows", rows}};
}

}  // namespace fovea::explorer
