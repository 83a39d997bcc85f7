#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "report/label.h"
#include "report/malformed.h"
#include "report/packed.h"
#include "report/report.h"
#include "report/written.h"
#include "tests/errors.h"
#include "tests/io/files.h"

// Every kind of picture that the table has, in every format.
namespace fovea::report {
namespace {

using test::error_of;
using test::has;

class Kinds : public testing::TestWithParam<const PictureKind*> {
 protected:
  const PictureKind& kind = *GetParam();
};

TEST_P(Kinds, HasEveryFormat) {
  ASSERT_NE(kind.check, nullptr);
  ASSERT_NE(kind.text, nullptr);
  ASSERT_NE(kind.drawing, nullptr);
  ASSERT_NE(kind.json, nullptr);
  ASSERT_NE(kind.csv, nullptr);
  ASSERT_NE(kind.page, nullptr);
  ASSERT_NE(kind.pack, nullptr);
  ASSERT_NE(kind.unpack, nullptr);
  ASSERT_NE(kind.titled, nullptr);
  ASSERT_NE(kind.example, nullptr);
  EXPECT_EQ(&kind.example().kind(), &kind);
  EXPECT_EQ(&picture_kind(kind.name), &kind);
  EXPECT_FALSE(std::string(kind.plural).empty());
  EXPECT_FALSE(std::string(kind.about).empty());
}

TEST_P(Kinds, IsDrawnInATerminal) {
  const Picture p = kind.titled(kind.example(), "a <title>");
  for (const int width : {1, 40, 200}) {
    const std::string text = to_text(p, Ink::plain, width);
    EXPECT_TRUE(text.starts_with("a <title>\n")) << text;
    EXPECT_GT(std::ranges::count(text, '\n'), 1) << text;
  }
  EXPECT_TRUE(has(to_text(p, Ink::colour), "a <title>\n"));
}

TEST_P(Kinds, IsAnSvgAndAPng) {
  const Picture p = kind.titled(kind.example(), "a <title>");
  const std::string svg = to_svg({p});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_TRUE(has(svg, "a &lt;title&gt;"));
  EXPECT_EQ(kind.drawing(std::vector{p}, Target::svg).svg, svg);
  EXPECT_GT(kind.drawing(std::vector{p, p}, Target::svg).height,
            kind.drawing(std::vector{p}, Target::svg).height);
  EXPECT_TRUE(to_png({p}).starts_with("\x89PNG"));
  const test::Folder folder;
  write(folder / "a.svg", {p});
  EXPECT_EQ(test::read_bytes(folder / "a.svg"), svg);
  write(folder / "a.png", {p});
  EXPECT_EQ(test::read_bytes(folder / "a.png"), to_png({p}));
}

TEST_P(Kinds, IsJson) {
  const Picture p = kind.titled(kind.example(), "a \"title\"");
  EXPECT_EQ(nlohmann::json::parse(to_json(p)).at("title"), "a \"title\"");
  const test::Folder folder;
  write(folder / "one.json", {p});
  EXPECT_EQ(test::read_bytes(folder / "one.json"), to_json(p) + "\n");
  write(folder / "two.json", {p, p});
  EXPECT_EQ(nlohmann::json::parse(test::read_bytes(folder / "two.json")).size(), 2u);
}

// As many cells in every line, the title in the first.
TEST_P(Kinds, IsCsv) {
  const std::string csv = to_csv({kind.titled(kind.example(), "a, \"title\"")});
  ASSERT_TRUE(csv.starts_with("picture,") && csv.ends_with("\r\n")) << csv;
  std::set<size_t> cells;
  size_t lines = 0, here = 1;
  bool inside = false;
  for (const char c : csv) {
    inside = inside != (c == '"');
    if (c == ',' && !inside) ++here;
    if (c == '\n') cells.insert(here), here = 1, ++lines;
  }
  EXPECT_EQ(cells.size(), 1u) << csv;
  EXPECT_GT(lines, 1u);
  EXPECT_TRUE(has(csv, "\n\"a, \"\"title\"\"\",")) << csv;
}

TEST_P(Kinds, StandsOnAPage) {
  const Picture p = kind.titled(kind.example(), "a <title>");
  const auto page = [](std::vector<Picture> items) {
    return to_html({.title = "t", .sections = {{"s", {Pictures{std::move(items)}}}}});
  };
  const std::string one = page({p});
  EXPECT_EQ(malformed(one), "");
  EXPECT_EQ(count(one, "<figure"), 1u);
  EXPECT_TRUE(has(one, "a &lt;title&gt;</figcaption>")) << one;
  EXPECT_EQ(count(page({p, p}), "<figure"), 2u);
}

TEST_P(Kinds, TravelsAndComesBackTheSame) {
  const Picture p = kind.example();
  const auto json = packed(p);
  EXPECT_EQ(json.at("kind"), kind.name);
  const Picture back = unpacked(nlohmann::ordered_json::parse(json.dump()));
  EXPECT_EQ(to_json(back), to_json(p));
  EXPECT_EQ(to_svg({back}), to_svg({p}));
  EXPECT_EQ(packed(back), json);
  EXPECT_EQ(to_json(kind.unpack(kind.pack(p, Numbers::rounded))), to_json(p));
}

// Pictures of another kind share a page and a list, and no drawing.
TEST_P(Kinds, StandsBesideOthers) {
  for (const PictureKind* other : picture_table()) {
    const std::vector<Picture> both = {kind.example(), other->example()};
    EXPECT_EQ(malformed(to_html({.title = "t", .sections = {{"s", {Pictures{both}}}}})), "");
    if (other == &kind) continue;
    EXPECT_TRUE(has(error_of([&] { to_svg(both); }), "make no one picture")) << other->name;
    EXPECT_NE(std::string(other->plural), kind.plural);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Kinds,
                         testing::ValuesIn(picture_table().begin(), picture_table().end()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST(Picture, OfAnUnknownKindIsRefused) {
  EXPECT_TRUE(has(error_of([] {
                    unpacked({{"kind", "hologram"}});
                  }),
                  "no kind 'hologram'; there are heatmap, "));
}

}  // namespace
}  // namespace fovea::report
