#include <gtest/gtest.h>

#include "explorer/answers.h"
#include "report/packed.h"
#include "tests/errors.h"

// What the page saves: every kind of picture in every format that it has a button for.
namespace fovea::explorer {
namespace {

using test::has;

class Draw : public testing::TestWithParam<const report::PictureKind*> {};

TEST_P(Draw, EveryFormatIsAFile) {
  const report::Picture picture = GetParam()->titled(GetParam()->example(), "a title");
  const Json asked = {{"pictures", packed({picture})}};
  const auto file = [&](const std::string& format) {
    const Response r = draw(asked, format);
    EXPECT_EQ(r.status, 200);
    EXPECT_TRUE(has(r.headers.at(0).second, "fovea." + format));
    return r.body;
  };
  EXPECT_EQ(file("svg"), report::to_svg({picture}));
  EXPECT_EQ(file("png"), report::to_png({picture}));
  EXPECT_EQ(file("csv"), report::to_csv({picture}));
  EXPECT_EQ(Json::parse(file("json")).at(0), Json::parse(report::to_json(picture)));
  EXPECT_TRUE(has(file("html"), "a title</figcaption>"));
}

INSTANTIATE_TEST_SUITE_P(Every, Draw,
                         testing::ValuesIn(report::picture_table().begin(),
                                           report::picture_table().end()),
                         [](const auto& one) { return std::string(one.param->name); });

}  // namespace
}  // namespace fovea::explorer
