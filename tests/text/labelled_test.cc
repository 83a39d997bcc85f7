#include "text/labelled.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::text {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::write_bytes;
using Parse = std::vector<Labelled> (*)(LineReader, const Columns&);

std::vector<Labelled> parsed(Parse parse, std::string_view bytes, const Columns& columns = {}) {
  return parse(LineReader::of_memory("read_labelled", "file", bytes), columns);
}
std::string error_in(Parse parse, std::string_view bytes, const Columns& columns = {}) {
  const std::string message = error_of([&] { parsed(parse, bytes, columns); });
  EXPECT_LT(message.size(), 500u);
  return message;
}
void expect(const std::vector<Labelled>& found,
            const std::vector<std::pair<std::string, std::string>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].label, expected[i].first);
    EXPECT_EQ(found[i].text, expected[i].second);
  }
}

constexpr Parse kTsv = parse_labelled_tsv, kCsv = parse_labelled_csv, kJsonl = parse_labelled_jsonl;

TEST(LabelledTsv, IsLabelAndText) {
  expect(parsed(kTsv, "pos\tgood film\n\nneg \t bad \"film\t \t\n"),
         {{"pos", "good film"}, {"neg", "bad \"film"}});
  expect(parsed(kTsv, "\xEF\xBB\xBFpos\ta\r\nneg\tb\xFF\r\n"), {{"pos", "a"}, {"neg", "b\uFFFD"}});
  expect(parsed(kTsv, "id\ttext\tlabel\n7\tgood\tpos\n"), {{"pos", "good"}});
}

TEST(LabelledTsv, ErrorsNameTheLine) {
  EXPECT_EQ(error_in(kTsv, "a\tb\n\nno tab\n"),
            "[read_labelled] file:3: expected label<TAB>text, found 'no tab'");
  EXPECT_EQ(error_in(kTsv, "a\t \n"), "[read_labelled] file:1: the text is empty");
  EXPECT_EQ(error_in(kTsv, "a\t\u00A0\n"), "[read_labelled] file:1: the text is empty");
  EXPECT_EQ(error_in(kTsv, "a\tb\n \tb\n"), "[read_labelled] file:2: the label is empty");
  EXPECT_EQ(error_in(kTsv, ""), "[read_labelled] file: no documents, the file is empty");
  EXPECT_EQ(error_in(kTsv, "label\ttext\n"), "[read_labelled] file:1: no documents");
  EXPECT_TRUE(has(error_in(kTsv, std::string_view("a\tb\0\n", 5)), "file:1: a zero byte"));
  EXPECT_EQ(error_in(kTsv, "a\t" + std::string(kMaxLine, 'x')),
            "[read_labelled] file:1: a line of more than 1000000 bytes");
  EXPECT_TRUE(has(error_in(kTsv, std::string(300, 'x') + "\tpos\n"), "is it the text?"));
}

TEST(LabelledTsv, NoTextIsDropped) {
  EXPECT_TRUE(has(error_in(kTsv, "a\tb\nc\td\tcut off\n"), "file:2: 3 columns, expected label"));
  EXPECT_TRUE(has(error_in(kTsv, "text\tlabel\nb\ta\ncut\toff\ta\n"),
                  "file:3: 3 columns, the first line names 2"));
  EXPECT_TRUE(
      has(error_in(kTsv, "id\ttext\tlabel\n1\ta\n"), "file:2: 2 columns, the first line names 3"));
  expect(parsed(kTsv, "label\ttext\tdate\na\tb\t1999\na\tc\t\n"), {{"a", "b"}, {"a", "c"}});
}

TEST(LabelledTsv, NamesOfColumnsAreNoDocument) {
  std::string reviews;
  for (int i = 0; i < 5; ++i) reviews += "pos\tgood film\nneg\tbad\n";
  EXPECT_TRUE(has(error_in(kTsv, "sentiment\treview\n" + reviews),
                  "file:1: this looks like names of columns, 'sentiment' and 'review'"));
  EXPECT_EQ(parsed(kTsv, "sentiment\treview\n" + reviews, {"sentiment", "review"}).size(), 10u);
  EXPECT_EQ(parsed(kTsv, "neg\tboring\n" + reviews).size(), 11u);
}

TEST(LabelledCsv, SemicolonsAndTabsSeparateToo) {
  expect(parsed(kCsv, "\"label\";\"text\"\npos;\"a; b, c\"\n"), {{"pos", "a; b, c"}});
  expect(parsed(kCsv, "label\ttext\npos\ta, b\n"), {{"pos", "a, b"}});
}

TEST(LabelledCsv, HasColumnsByNameQuotesAndLineBreaks) {
  expect(parsed(kCsv, "id,text,label\n1,\"good, \"\"really\"\"\nand long\",pos\n2,bad,neg\n"),
         {{"pos", "good, \"really\"\nand long"}, {"neg", "bad"}});
  expect(parsed(kCsv, "\xEF\xBB\xBFlabel,text\r\npos,\"a\r\n\r\nb\"\r\n\r\nneg,c\r\n"),
         {{"pos", "a\n\nb"}, {"neg", "c"}});
  expect(parsed(kCsv, "sentiment,review\npos,x\n", {"sentiment", "review"}), {{"pos", "x"}});
  expect(parsed(kCsv, "label,text,more\npos,5\" tall,\n"), {{"pos", "5\" tall"}});
  expect(parsed(kCsv, "text,label\n\"\"\"\",\"pos\""), {{"pos", "\""}});
}

TEST(LabelledCsv, ErrorsNameTheLine) {
  EXPECT_EQ(error_in(kCsv, "class,text\na,b\n"),
            "[read_labelled] file:1: expected a first line that names the columns, 'label' and "
            "'text' among them, found 'class', 'text'; --label-column and --text-column say other "
            "names");
  EXPECT_EQ(error_in(kCsv, "label,text\na,b\na,\"b\nc\n"),
            "[read_labelled] file:4: a quote of the record of line 3 is not closed");
  EXPECT_EQ(error_in(kCsv, "label,text\na,b,c\n"),
            "[read_labelled] file:2: 3 fields, the first line names 2");
  EXPECT_EQ(error_in(kCsv, "label,text\na\n"),
            "[read_labelled] file:2: 1 fields, the first line names 2");
  EXPECT_TRUE(
      has(error_in(kCsv, "label,text\na,\"b\"c\n"), "file:2: text after a closing quote; "));
  EXPECT_EQ(error_in(kCsv, "label,text\n,b\n"), "[read_labelled] file:2: the label is empty");
  EXPECT_EQ(error_in(kCsv, "label,text\na,\"\"\n"), "[read_labelled] file:2: the text is empty");
  EXPECT_EQ(error_in(kCsv, ""), "[read_labelled] file: no documents, the file is empty");
  EXPECT_EQ(error_in(kCsv, "label,text\n"), "[read_labelled] file:1: no documents");
  std::string endless = "label,text\na,\"";
  for (int i = 0; i < 3000; ++i) endless += std::string(500, 'x') + "\n";
  EXPECT_TRUE(has(error_in(kCsv, endless), "a record of more than 1000000 bytes since line 2"));
}

TEST(LabelledJsonl, HasAnObjectALine) {
  expect(parsed(kJsonl,
                "{\"label\": \"pos\", \"text\": \"a\\nb\", \"n\": [1, {}]}\n\n"
                "{\"text\": \"é\", \"label\": 3}\n{\"label\":true,\"text\":\"x\"}"),
         {{"pos", "a\nb"}, {"3", "é"}, {"true", "x"}});
}

TEST(LabelledJsonl, ErrorsNameTheLine) {
  EXPECT_EQ(error_in(kJsonl, "{\"label\": \"pos\"}\n"),
            "[read_labelled] file:1: there is no \"text\"; there are 'label'; --label-column and "
            "--text-column name them");
  EXPECT_EQ(error_in(kJsonl, "{\"label\": null, \"text\": \"\"}"),
            "[read_labelled] file:1: \"label\" must be a string, found null");
  EXPECT_EQ(error_in(kJsonl, "{\"label\": [1], \"text\": \"x\"}"),
            "[read_labelled] file:1: \"label\" must be a string, found array");
  EXPECT_EQ(error_in(kJsonl, "{\"label\": \"a\", \"text\": \" \"}"),
            "[read_labelled] file:1: the text is empty");
  EXPECT_EQ(error_in(kJsonl, "{\"label\": \"a\", \"text\": \"\\u0000\"}"),
            "[read_labelled] file:1: a zero byte");
  EXPECT_EQ(error_in(kJsonl, "[\n"), "[read_json] file:1 is not JSON in UTF-8: line 1, byte 2");
  EXPECT_EQ(
      error_in(kJsonl, "[1]\n"),
      "[read_labelled] file:1: expected an object a line, as jq -c '.[]' makes of a list, found "
      "array");
  const std::string deep = "{\"label\":\"a\",\"text\":" + std::string(200000, '[') + "\n";
  EXPECT_TRUE(has(error_in(kJsonl, deep), "file:1 is nested too deeply"));
}

TEST(Labelled, FoldersAreClasses) {
  const Folder folder;
  for (const char* name : {"pos", "neg", ".git"}) std::filesystem::create_directory(folder / name);
  write_bytes(folder / "README", "not a class");
  write_bytes(folder / "pos/b.txt", "second\r\nline\n");
  write_bytes(folder / "pos/a.txt",
              "\xEF\xBB\xBF"
              "first");
  write_bytes(folder / "neg/x", "bad\xFF");
  write_bytes(folder / "neg/.hidden", "no");
  expect(read_labelled(folder / ""),
         {{"neg", "bad\uFFFD"}, {"pos", "first"}, {"pos", "second\nline"}});
  write_bytes(folder / "neg/y", " \n");
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / ""); }), "neg/y: the text is empty"));
  write_bytes(folder / "neg/y", std::string(kMaxLine / 2, 'x') + "\n" + std::string(kMaxLine, 'y'));
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / ""); }), "neg/y:2: "));
  std::filesystem::create_directory(folder / "new");
  std::filesystem::remove(folder / "neg/y");
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / ""); }), "new: no documents"));
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / "pos"); }), "a folder for each class"));
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / "none"); }), "No such file"));
  write_bytes(folder / "new/x", "text");
  EXPECT_EQ(read_labelled(folder / "").size(), 4u);
  std::filesystem::create_symlink("nowhere", folder / "neg/z.txt");
  EXPECT_TRUE(has(error_of([&] { read_labelled(folder / ""); }), "neg/z.txt is a link to nothing"));
}

TEST(Labelled, TheEndingSaysTheFormat) {
  const Folder folder;
  const auto read = [&](const char* name, const std::string& bytes) {
    write_bytes(folder / name, bytes);
    return read_labelled(folder / name);
  };
  expect(read("a.csv", "label,text\na,b\n"), {{"a", "b"}});
  expect(read("a.jsonl", "{\"label\":\"a\",\"text\":\"b\"}\n"), {{"a", "b"}});
  expect(read("a.tsv", "a\tb\n"), {{"a", "b"}});
  expect(read("a.txt", "a\tb\n"), {{"a", "b"}});
  gzFile file = gzopen((folder / "b.CSV.gz").c_str(), "wb");
  gzputs(file, "text,label\nb,a\n");
  gzclose(file);
  expect(read_labelled(folder / "b.CSV.gz"), {{"a", "b"}});
}

}  // namespace
}  // namespace fovea::text
