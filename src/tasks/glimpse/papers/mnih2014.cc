#include <fmt/format.h>

#include <cmath>

#include "tasks/paper.h"

// Mnih, Heess, Graves, Kavukcuoglu 2014: a few glimpses against networks that see all pixels, on
// digits that stand still, and that lie anywhere among clutter.
namespace fovea::tasks {
namespace {

struct Row {
  const char* name;
  const char* variant;
  const char* what;
  const char* model;
  const char* glimpses;   // or nothing
  const char* published;  // error, %
};
constexpr Row kRows[] = {
    {"plain-dense", "plain", "two dense layers of 256", "dense", "", "1.69"},
    {"plain-conv", "plain", "convolution", "conv", "", "1.21"},
    {"plain-2", "plain", "two glimpses, 8 × 8", "recurrent", "2", "3.79"},
    {"plain-4", "plain", "four glimpses, 8 × 8", "recurrent", "4", "1.54"},
    {"plain-6", "plain", "six glimpses, 8 × 8", "recurrent", "6", "1.12"},
    {"cluttered-dense", "cluttered", "two dense layers of 256", "dense", "", "11.96"},
    {"cluttered-conv", "cluttered", "convolution", "conv", "", "8.09"},
    {"cluttered-4", "cluttered", "four glimpses, 12 × 12 × 3", "recurrent", "4", "4.96"},
    {"cluttered-8", "cluttered", "eight glimpses, 12 × 12 × 3", "recurrent", "8", "4.04"},
    {"cluttered-random", "cluttered", "eight glimpses at random", "random", "8", "14.4"},
};

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Row& row : kRows) {
    Given options = {{"variant", row.variant}, {"model", row.model}};
    if (*row.glimpses != '\0') options["glimpses"] = row.glimpses;
    const bool plain = row.variant == std::string("plain");
    options["epochs"] = data.empty() ? (plain ? "16" : "30") : (plain ? "6" : "10");
    if (!data.empty()) options["data"] = data;
    all.push_back({row.name, "glimpse", options});
  }
  return all;
}

report::Section section_of(const std::vector<Outcome>& all, const char* variant,
                           const std::string& heading, const std::string& note) {
  report::Table table{{"model", "error, %", "the paper, MNIST"}, {}};
  for (const Row& row : kRows) {
    if (row.variant != std::string(variant)) continue;
    table.rows.push_back({row.what, shown(over_seeds(all, row.name, "error")), row.published});
  }
  return {heading, {report::Text{note}, table}};
}

// The error after each glimpse, a mean over seeds.
report::Chart by_glimpses(const std::vector<Outcome>& all) {
  report::Chart chart{.x = "glimpses taken", .y = "error, %", .curves = {}};
  for (const char* name : {"plain-6", "cluttered-8", "cluttered-random"}) {
    report::Curve curve{name, {}};
    for (int64_t n = 1; n <= 8; ++n) {
      const Interval error = over_seeds(all, name, [&](const Evaluation& e) {
        const Breakdown* b = find_breakdown(e, "glimpses");
        const auto at = static_cast<size_t>(n - 1);
        return b == nullptr || at >= b->parts.size() ? std::nan("")
                                                     : score_of(b->parts[at].scores, "error");
      });
      if (!std::isnan(error.mean)) curve.points.emplace_back(n, error.mean);
    }
    chart.curves.push_back(std::move(curve));
  }
  return chart;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Mnih 2014: where to look next";
  p.subtitle = "Digits told by a few glimpses, each where the last ones sent it";
  const auto error = [&](const char* row) {
    return fmt::format("{:.2f} %", over_seeds(all, row, "error").mean);
  };
  p.headline = {{"eight glimpses in clutter", error("cluttered-8")},
                {"at random", error("cluttered-random")},
                {"convolution", error("cluttered-conv")}};
  p.sections.push_back(section_of(all, "plain", "Digits in the middle, 28 × 28",
                                  "Errors on held-out images. The paper trained on MNIST's 60,000 "
                                  "digits for far longer."));
  p.sections.push_back(section_of(
      all, "cluttered", "Digits anywhere on 60 × 60, with four pieces of others",
      "Placed anew in every epoch. What must come out alike: glimpses do better than the networks "
      "that see every pixel, more of them better than fewer, and far better than at random."));
  p.sections.push_back({"How the error falls from glimpse to glimpse",
                        {report::Text{"What would have been answered after each glimpse of those "
                                      "models; they learn from their last answer alone."},
                         by_glimpses(all)}});
  return p;
}

}  // namespace

extern const Paper paper_mnih2014 = {
    .name = "mnih2014",
    .title = "Recurrent models of visual attention",
    .about = "a few glimpses against all pixels, on digits as they are and in clutter",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
