#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/axis.h"
#include "report/heatmap.h"
#include "report/label.h"
#include "report/malformed.h"
#include "report/page.h"
#include "report/report.h"
#include "report/shaded_text.h"

namespace fovea::report {
namespace {

const std::string kNasty = "<b>&\"'</script><!--";

Points many(size_t n) {
  Points points;
  for (size_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(i);
    points.emplace_back(x, 2 + std::sin(0.1 * x));
  }
  return points;
}

Page full_page() {
  const Heatmap map{"t", {kNasty, "b"}, {"x", kNasty}, {1, 0, 0.25f, NAN}};
  Page page{"Title " + kNasty, "Sub " + kNasty, {{"name " + kNasty, "1 " + kNasty}}, {}};
  page.sections.push_back(
      {kNasty,
       {Text{kNasty + "\n\nsecond"}, Table{{kNasty, "n"}, {{kNasty, "12.5 %"}, {"short"}}},
        Chart{kNasty, kNasty, {{kNasty, many(10000)}, {"gap", {{0, 1}, {1, NAN}, {2, 3}}}}, true},
        Bars{kNasty, kNasty, {"g", kNasty}, {"s", kNasty}, {{1, 2}, {NAN, -4}}},
        Pictures{{map.kind().titled(map, kNasty), map}},
        Pictures{{ShadedText{
            kNasty, {{0.9f, {kNasty, "b", "."}, {0.7f, 0.2f, NAN}}, {NAN, {"c"}, {1}}}}}}}});
  page.sections.push_back({"Nothing",
                           {Text{}, Table{}, Chart{}, Bars{}, Pictures{}, Pictures{{Heatmap{}}},
                            Pictures{{ShadedText{}}}}});
  page.sections.push_back({"Third", {}});
  return page;
}

// What stands in the page's JSON block.
std::string figures_of(const std::string& html) {
  const std::string start = R"(<script type="application/json" id="figures">)";
  const size_t from = html.find(start) + start.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(Html, IsWellFormed) {
  EXPECT_EQ(malformed(to_html(full_page())), "");
  EXPECT_EQ(malformed(to_html({})), "");
}

TEST(Html, TheCheckItselfSees) {
  EXPECT_NE(malformed("<a><b></a></b>"), "");
  EXPECT_NE(malformed("<a>"), "");
  EXPECT_NE(malformed("<a b=c></a>"), "");
  EXPECT_NE(malformed("<a b=\"<\"></a>"), "");
  EXPECT_NE(malformed("<a>x & y</a>"), "");
  EXPECT_EQ(malformed("<a b=\"&lt;\"><c/>x &amp; y</a>"), "");
}

TEST(Html, NothingThatCameInIsMarkup) {
  const std::string html = to_html(full_page());
  EXPECT_EQ(count(html, "<b>"), 0u);
  EXPECT_EQ(count(html, "<!--"), 0u);
  EXPECT_EQ(count(html, "</script>"), 2u);  // the figures', the script's
  EXPECT_NE(html.find("<title>Title &lt;b&gt;&amp;&quot;&#39;&lt;/script&gt;&lt;!--</title>"),
            std::string::npos);
}

TEST(Html, FiguresForTheScriptReadBack) {
  const std::string json = figures_of(to_html(full_page()));
  EXPECT_EQ(json.find_first_of("<>&"), std::string::npos);
  const auto figures = nlohmann::json::parse(json);
  ASSERT_EQ(figures.size(), 3u);  // a chart, two maps
  EXPECT_EQ(figures[0]["curves"][0]["name"], kNasty);
  EXPECT_EQ(figures[1]["rows"][0], kNasty);
  EXPECT_EQ(figures[1]["weights"], nlohmann::json::parse("[1.0, 0.0, 0.25, null]"));
}

TEST(Html, LoadsNothing) {
  const std::string html = to_html(full_page());
  EXPECT_EQ(count(html, "http"), count(html, "http-equiv"));
  for (const char* load : {"src=", "url(", "@import", "<link", "<iframe", "fetch(", "//cdn"}) {
    EXPECT_EQ(count(html, load), 0u) << load;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(Html, ManyPointsStayFew) {
  const auto figures = nlohmann::json::parse(figures_of(to_html(full_page())));
  EXPECT_LE(figures[0]["curves"][0]["points"].size(), 400u);
  EXPECT_EQ(figures[0]["curves"][1]["points"], nlohmann::json::parse("[[0,1],[1,null],[2,3]]"));
  Page page;
  page.sections.push_back({"", {Chart{"x", "y", {{"c", many(200000)}}, false}}});
  EXPECT_LT(to_html(page).size(), 100000u);
}

TEST(Html, NumbersStandOnTheRight) {
  Html html;
  add(html, Table{{"model", "BLEU", "time"}, {{"a", "26.75", "3 min"}, {"b2", "—", "-"}}});
  EXPECT_EQ(
      html.text(),
      R"(<div class="scroll" role="region" aria-label="Table" tabindex="0"><table><thead><tr>)"
      R"(<th scope="col">model</th><th scope="col" class="num">BLEU</th>)"
      R"(<th scope="col" class="num">time</th></tr></thead><tbody>)"
      R"(<tr><td>a</td><td class="num">26.75</td><td class="num">3 min</td></tr>)"
      R"(<tr><td>b2</td><td class="num">—</td><td class="num">-</td></tr>)"
      "</tbody></table></div>");
}

TEST(Html, BarsLeaveOutNaNAndCheckTheirShape) {
  Html html;
  add(html, Bars{"x", "y", {"a", "b"}, {"s", "t"}, {{1, NAN}, {3, 4}}});
  EXPECT_EQ(count(html.text(), "<rect class=\"bar"), 2u * 3u);  // drawn for two widths
  EXPECT_THROW(add(html, Bars{"x", "y", {"a", "b"}, {"s"}, {{1}}}), Error);
  EXPECT_THROW(add(html, Bars{"x", "y", {"a"}, {"s", "t"}, {{1}}}), Error);
}

TEST(Html, EpochsAreCounted) {
  Html counted, measured;
  add(counted, Chart{"epoch", "y", {{"c", {{1, 1}, {2, 2}, {3, 3}}}}, false});
  add(measured, Chart{"epoch", "y", {{"c", {{1, 1}, {2.5, 2}, {3, 3}}}}, false});
  EXPECT_EQ(count(counted.text(), ">2.25</text>"), 0u);
  EXPECT_GT(count(measured.text(), ">2.25</text>"), 0u);
}

TEST(Html, StrangeValuesAreDrawn) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const bool log_y : {false, true}) {
    Page page;
    page.sections.push_back(
        {"",
         {Chart{"x", "y", {{"", {{0, inf}, {1, -1}, {2, 0}}}}, log_y},
          Chart{"x", "y", {{"", {{5, 0.25}}}}, log_y},
          Chart{"x", "y", {{"", {{1, 1e-300}, {2, 1e300}}}}, log_y},
          Bars{"", "", {"a"}, {"s"}, {{inf}}}, Bars{"", "", {"a"}, {"s"}, {{-3}}}}});
    const std::string html = to_html(page);
    EXPECT_EQ(malformed(html), "");
    EXPECT_EQ(count(html, "nan"), 0u);
    EXPECT_EQ(count(html, " inf"), 0u);
  }
}

TEST(Thinned, KeepsTheSpikesTheEndsAndTheGaps) {
  Points points = many(10000);
  points[7777].second = 100;
  points[1234].second = -100;
  const Thinned few = thinned(points);
  EXPECT_LE(few.points.size(), 602u);
  const auto has = [&](double y) {
    return std::any_of(few.points.begin(), few.points.end(),
                       [&](auto& p) { return p.second == y; });
  };
  EXPECT_TRUE(has(100));
  EXPECT_TRUE(has(-100));
  EXPECT_TRUE(std::is_sorted(few.points.begin(), few.points.end(),
                             [](auto& a, auto& b) { return a.first < b.first; }));

  for (size_t i = 4000; i < 5000; ++i) points[i].second = NAN;
  const Thinned gap = thinned(points);
  EXPECT_TRUE(std::any_of(gap.means.begin(), gap.means.end(),
                          [](auto& p) { return std::isnan(p.second); }));
}

TEST(Thinned, ShortCurvesStay) {
  const Points points = many(500);
  EXPECT_EQ(thinned(points).points, points);
  EXPECT_TRUE(thinned(points).means.empty());
}

TEST(Thinned, MeansAreMeans) {
  Points points;
  for (int i = 0; i < 6000; ++i) points.emplace_back(i, i % 2);
  const Thinned few = thinned(points);
  EXPECT_EQ(few.stretch, 20u);
  for (const auto& [x, y] : few.means) EXPECT_DOUBLE_EQ(y, 0.5);
  EXPECT_DOUBLE_EQ(few.means[0].first, 9.5);
}

TEST(Axis, TicksAreRound) {
  const Axis axis = linear_axis(0, 0.93, 5, Ends::round);
  EXPECT_EQ(axis.high, 1.0);
  ASSERT_EQ(axis.ticks.size(), 6u);
  EXPECT_EQ(axis.label(axis.ticks[3]), "0.6");
  EXPECT_DOUBLE_EQ(axis.place(0.25), 0.25);
}

TEST(Axis, WhatIsCountedHasWholeTicks) {
  EXPECT_EQ(linear_axis(1, 3, 8, Ends::tight, Steps::whole).ticks, (std::vector<double>{1, 2, 3}));
  for (const double tick : linear_axis(0, 19, 8, Ends::tight, Steps::whole).ticks) {
    EXPECT_EQ(tick, std::round(tick));
  }
}

TEST(Axis, LargeNumbersAreShort) {
  const Axis axis = linear_axis(0, 50000, 5, Ends::tight);
  EXPECT_EQ(axis.label(0), "0");
  EXPECT_EQ(axis.label(20000), "20k");
  EXPECT_EQ(linear_axis(0, 3e6, 5, Ends::tight).label(1.5e6), "1.5M");
}

TEST(Axis, DecadesOfALogarithm) {
  const Axis axis = log_axis(1e-6, 1, 7);
  EXPECT_EQ(axis.label(axis.ticks.front()), "10⁻⁶");
  EXPECT_EQ(axis.label(axis.ticks.back()), "1");
  EXPECT_NEAR(axis.place(1e-3), 0.5, 1e-9);
  EXPECT_GE(log_axis(0.30, 0.34, 5).ticks.size(), 3u);
  EXPECT_GE(log_axis(0.2, 0.2, 5).ticks.size(), 1u);
}

}  // namespace
}  // namespace fovea::report
