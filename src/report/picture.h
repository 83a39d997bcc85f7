#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

// Where a model looked, as a picture of any kind: a heat-map, a shaded text, an image, a way over
// one. A kind is a file, src/report/pictures/NAME.cc, which defines `extern const PictureKind
// picture_NAME` and says there all that is said about it. CMake makes a table of the files
// (cmake/Tables.cmake); whoever shows pictures goes through it and knows no kind by name.
namespace fovea::report {

class Html;
struct PictureKind;

// Weights from nothing to full, or signed ones around 0, in two colours.
enum class Scale : uint8_t { from_zero, around_zero };
enum class Ink : uint8_t { plain, colour };       // of a terminal
enum class Target : uint8_t { svg, png };         // of a drawing: PNG has no pointer, nor emoji
enum class Numbers : uint8_t { exact, rounded };  // in JSON that is read back (packed.h)

// A value: what it holds is checked once, and never changes.
class Picture {
 public:
  template <class Content>
  requires requires {
    { Content::kind() } -> std::same_as<const PictureKind&>;
  }
  Picture(Content content)  // NOLINT: a heat-map is a picture
      : kind_(&Content::kind()), content_(std::make_shared<const Content>(std::move(content))) {
    check();
  }
  const PictureKind& kind() const { return *kind_; }
  template <class Content>
  bool holds() const {
    return kind_ == &Content::kind();
  }
  template <class Content>
  const Content& get() const {  // throws where it holds something else
    expect(Content::kind());
    return *static_cast<const Content*>(content_.get());
  }

 private:
  void check() const;
  void expect(const PictureKind&) const;

  const PictureKind* kind_;
  std::shared_ptr<const void> content_;
};

// An SVG file, and its size in its own units.
struct Drawing {
  std::string svg;
  double width = 0, height = 0;
};

// What a model was asked and answered, for the caption of an example.
struct Answered {
  std::string input, output, expected;
  double score = 0;
};

struct PictureKind {
  const char* name;    // as the file is called
  const char* plural;  // "maps": where several are counted or listed
  const char* about;   // a line above examples: how to read them
  // Of an example, where it says whether the answer is right; null: "input → output", below a table
  // of what was expected.
  std::string (*caption)(const Answered&) = nullptr;

  void (*check)(const Picture&);  // throws where what it holds does not fit together
  std::string (*text)(const Picture&, Ink, int width);   // for a terminal, its title first
  Drawing (*drawing)(std::span<const Picture>, Target);  // one below the other
  nlohmann::ordered_json (*json)(const Picture&);        // of a file
  std::string (*csv)(std::span<const Picture>);          // a line of names, then a line for each
  void (*page)(Html&, std::span<const Picture>);         // a figure each, its title as the caption
  // As the explorer's page and runs that go on get it and give it back.
  nlohmann::ordered_json (*pack)(const Picture&, Numbers);
  Picture (*unpack)(const nlohmann::ordered_json&);
  Picture (*titled)(const Picture&, std::string title);
  Picture (*example)();  // a small one, which the tests draw in every format
};
std::span<const PictureKind* const> picture_table();
const PictureKind& picture_kind(const std::string& name);  // throws, with the names there are

// For PictureKind::titled of what has a title.
template <class Content>
Picture with_title(const Picture& picture, std::string title) {
  Content content = picture.get<Content>();
  content.title = std::move(title);
  return content;
}

std::string to_text(const Picture&, Ink, int width = 80);
std::string to_json(const Picture&);

// Pictures of one kind in one drawing. A PNG throws where it would be too large.
std::string to_svg(const std::vector<Picture>&);
std::string to_png(const std::vector<Picture>&);
std::string to_csv(const std::vector<Picture>&);  // a kind after the other

// By the ending: .json (a list where they are several), .csv, .svg or .png. Whole or not at all.
enum class PictureFormat : uint8_t { json, csv, svg, png };
PictureFormat picture_format(const std::filesystem::path&);  // anything else throws
void write(const std::filesystem::path&, const std::vector<Picture>&);

}  // namespace fovea::report
