#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/program.h"

// Looking inside, as a user does.
namespace fovea::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Trained {
  Folder folder;
  std::string run = folder / "run", fixed = folder / "fixed";
  Trained() {
    const auto train = [](const std::string& out, const Words& more) {
      Words words = {
          "train",    "translate", "--out",   out, "--examples",        "100", "--embedding", "6",
          "--hidden", "8",         "--steps", "3", "--valid-sentences", "2"};
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_EQ(run_program(words).code, 0);
    };
    train(run, {});
    train(fixed, {"--context", "fixed"});
  }
};
const Trained& trained() {
  static const Trained once;
  return once;
}

Ran explain(const Words& more, const std::string& run = trained().run) {
  Words words = {"explain", run};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

TEST(ExplainVerb, PrintsMapsAndTheirAgreement) {
  const Ran ran = explain({"3 May", "--by", "attention,jacobian,occlusion"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"3 May → ", "Attention", "Jacobian", "Occlusion", "Kendall τ of sizes"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << ran.out;
  }
  EXPECT_EQ(explain({"--by", "attention,jacobian,occlusion", "3 May"}).out, ran.out);
  const Ran plain = explain({"3 May"}, trained().fixed);
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.out.find("Jacobian"), std::string::npos);
  EXPECT_EQ(plain.out.find("Attention"), std::string::npos);
}

TEST(ExplainVerb, PrintsJsonAndDraws) {
  const Folder folder;
  for (const char* file : {"a.svg", "a.png", "a.json", "a.html"}) {
    const Ran ran = explain({"3 May", "--by", "attention,jacobian-signed", "--json", "--output",
                             "1", "--picture", folder / file});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const Json j = Json::parse(ran.out);
    ASSERT_EQ(j["maps"].size(), 2u);
    EXPECT_EQ(j["maps"][0]["columns"].size(), 6u);  // five characters and the end
    EXPECT_EQ(j["tau"]["attention"]["attention"], 1.0);
  }
  EXPECT_TRUE(read_bytes(folder / "a.svg").starts_with("<svg "));
  EXPECT_TRUE(read_bytes(folder / "a.png").starts_with("\x89PNG"));
  EXPECT_EQ(Json::parse(read_bytes(folder / "a.json")).size(), 2u);
  EXPECT_NE(read_bytes(folder / "a.html").find("Do they agree?"), std::string::npos);
}

TEST(ExplainVerb, ShowsFastAndSlowWeights) {
  const Ran ran = explain({"3 May", "5 June", "--by", "weights"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("slow, input 2"), std::string::npos) << ran.out;
}

TEST(ExplainVerb, SaysWhatIsWrongInOneLine) {
  const auto refused = [](const Ran& ran, const std::string& why) {
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  };
  refused(explain({"3 May", "--by", "attention"}, trained().fixed), "no attention to show");
  refused(explain({"3 May", "--by", "rollout"}), "layers of self-attention");
  refused(explain({"3 May", "--by", "gradcam"}), "of convolutions");
  refused(explain({"3 May", "--by", "magic"}), "--by takes no \"magic\"");
  refused(explain({"3", "May"}), "one input is explained at a time");
  refused(explain({"3 May", "--by", "weights"}), "takes two inputs, found 1");
  refused(explain({"3 May", "--picture", "a.gif"}), "a picture ends in");
  refused(explain({"3 May", "--output", "0"}), "--output must be in 1 …");
}

TEST(FaithfulVerb, PrintsATableAndAVerdict) {
  const Folder folder;
  const Words quick = {"--inputs", "2", "--steps", "3", "--permutations", "1"};
  Words words = {"faithful",        trained().run, "--page",
                 folder / "a.html", "--beside",    trained().fixed};
  words.insert(words.end(), quick.begin(), quick.end());
  const Ran ran = run_program(words);
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"τ, gradient", "distance, adversarial", "Kendall's τ: median"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << ran.out;
  }
  EXPECT_NE(read_bytes(folder / "a.html").find("Verdict"), std::string::npos);
  words = {"faithful", trained().run, "--json"};
  words.insert(words.end(), quick.begin(), quick.end());
  EXPECT_EQ(Json::parse(run_program(words).out)["inputs"], 2);
  const Ran refused = run_program({"faithful", trained().fixed});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("no look at the input"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace fovea::test
