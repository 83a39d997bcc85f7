#include "report/shaded_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/malformed.h"
#include "report/page.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::report {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;

ShadedText some_shaded() {
  return {"positive",
          {{0.75f, {"The", "film", "is", "superb", "."}, {0.05f, 0.1f, 0.05f, 0.8f, 0.0f}},
           {0.25f, {"It", "<rained>", "."}, {0.5f, 0.5f, 0.0f}}}};
}

TEST(Shaded, WordsWeighInTheWholeText) {
  const ShadedText t = some_shaded();
  EXPECT_FLOAT_EQ(weight_in_text(t.lines[0], 3), 0.6f);
  EXPECT_FLOAT_EQ(full_weight(t), 0.6f);
  EXPECT_EQ(full_weight(ShadedText{}), 1.0f);
}

TEST(Shaded, IsTextForATerminal) {
  EXPECT_EQ(to_text(some_shaded(), Ink::plain),
            "positive\n"
            "0.75 ██████  The *film* is ***superb*** .\n"
            "0.25 ██      *It* *<rained>* .\n"
            "     *word* from 10 %, **word** 30 %, ***word*** 70 % of the largest, 0.6\n");
  const std::string narrow = to_text(some_shaded(), Ink::plain, 34);
  EXPECT_TRUE(has(narrow, "The *film* is\n             ***superb*** .\n")) << narrow;
  EXPECT_TRUE(has(to_text(some_shaded(), Ink::colour), "\x1b[48;2;"));
}

TEST(Shaded, SignedWordsStandOutInTwoWays) {
  const ShadedText t{
      "why", {{1.0f, {"not", "dull", "it"}, {0.5f, -0.45f, 0.05f}}}, Scale::around_zero};
  EXPECT_EQ(to_text(t, Ink::plain),
            "why\n1.00 ██████  ***not*** ___dull___ it\n"
            "     ***+*** for the output, ___−___ against it; the fullest is 0.5\n");
  // The two colours of a terminal are those of a drawing on black, and neither is that of a weight.
  const auto ground = [](const ShadedText& of) {
    const std::string text = to_text(of, Ink::colour);
    return text.substr(text.find("\x1b[48;2;"), text.find('m') - text.find("\x1b[48;2;"));
  };
  ShadedText minus = t, weights = t;
  minus.lines[0].weights = {-0.5f, 0.0f, 0.0f};
  weights.scale = Scale::from_zero;
  EXPECT_NE(ground(t), ground(minus));
  EXPECT_NE(ground(t), ground(weights));
  const std::string svg = to_svg({t});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_TRUE(has(svg, "class=\"p31\"") && has(svg, "class=\"m27\"")) << svg;
  Html html;
  add(html, Pictures{{t}});
  EXPECT_TRUE(has(html.text(), "<mark class=\"above\" style=\"--w:1.00\""));
  EXPECT_TRUE(has(html.text(), "<mark class=\"below\" style=\"--w:0.90\""));
  EXPECT_TRUE(has(html.text(), "⁺not") && has(html.text(), "⁻dull")) << html.text();
  EXPECT_TRUE(has(html.text(), "class=\"key signed\"") && has(html.text(), "+0.5 for it"));
  EXPECT_TRUE(has(svg, ">⁺not<") && has(svg, "blue: against it")) << svg;
}

TEST(Shaded, IsJson) {
  const auto j = nlohmann::json::parse(to_json(some_shaded()));
  EXPECT_EQ(j["title"], "positive");
  EXPECT_EQ(j["lines"][1]["words"][1], "<rained>");
  EXPECT_FLOAT_EQ(j["lines"][0]["weights"][3].get<float>(), 0.8f);
  EXPECT_FLOAT_EQ(j["lines"][0]["weight"].get<float>(), 0.75f);
}

TEST(Shaded, IsAPicture) {
  const std::string svg = to_svg({some_shaded(), some_shaded()});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_TRUE(has(svg, "&lt;rained&gt;"));
  EXPECT_TRUE(has(svg, "class=\"g31\""));  // the fullest
  const Folder folder;
  write(folder / "a.png", {some_shaded()});
  EXPECT_TRUE(read_bytes(folder / "a.png").starts_with("\x89PNG"));
  write(folder / "a.json", {some_shaded(), some_shaded()});
  EXPECT_EQ(nlohmann::json::parse(read_bytes(folder / "a.json")).size(), 2u);
}

TEST(Shaded, OnAPageTheWordsStandOut) {
  Page page;
  page.sections.push_back({"Examples", {Pictures{{some_shaded()}}}});
  const std::string html = to_html(page);
  EXPECT_EQ(malformed(html), "");
  EXPECT_TRUE(has(html,
                  "<mark style=\"--w:1.00\" title=\"0.800 of the sentence, 0.600 in all\">"
                  "superb</mark>."));
  EXPECT_TRUE(has(html, "<i style=\"width:33.3%\"></i>0.25"));
}

TEST(Shaded, RefusesWeightsThatAreNotTheWords) {
  EXPECT_TRUE(has(error_of([] {
                    to_json(ShadedText{"", {{1.0f, {"a"}, {}}}});
                  }),
                  "0 weights for 1 words"));
}

}  // namespace
}  // namespace fovea::report
