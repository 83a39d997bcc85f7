#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fovea/text.h"
#include "image/image.h"

// What a run is asked about. None of it is a path: whoever may name files, which is the command
// line, reads them before.
namespace fovea::tasks {

struct Task;
class Coder;  // coder.h
enum class Set : uint8_t;

struct Text {
  std::string text;
};
struct GivenImage {
  image::Image image;
  std::string name;  // for titles, and for places that are kept by name
  // A photo covers what the model sees; a row of a data set stands in it pixel by pixel.
  enum class Kind : uint8_t { photo, row } kind = Kind::photo;
};
// One of the run's own examples: "test:3", or of built-in data "scene:17".
struct Own {
  std::string set;
  int64_t number = 0;  // from 0
};
using Input = std::variant<Text, GivenImage, Own>;

// The text itself, a picture's name, or "test:3".
std::string name_of(const Input&);

// For a run that reads text; throws where something else is asked about.
const std::string& text_of(const Input&);
std::vector<std::string> texts_of(std::span<const Input>);
// A word, a character or a part of one, as it is written, in the order of the text. What is not
// known is read as one token that stands for all such: kUnknownShown.
struct Piece {
  std::string text;
  bool known = true;
};
inline constexpr const char* kUnknownShown = "⁇";
std::vector<Piece> read_pieces(const Coder&, const std::string& text);
// At most so many of them.
std::vector<Input> spread_of(const std::vector<std::string>& texts, size_t most);

// For a run that sees: the example that is asked about; throws where it is a text.
const Own& own_of(const Input&);
std::optional<Set> set_of(const Own&);  // nothing where it is drawn, of no set

// Nothing unless the word before a colon is "train", "valid", "test" or what the task calls its
// built-in examples; throws where no number follows.
std::optional<Own> own_from(const Task&, const std::string&);
// The index, checked against how many there are.
size_t index_of(const Own&, size_t count);

// What was typed: a text, as it is; for a run that sees, one of its own, a PNG or JPEG file, or
// FILE:3, the fourth row of an idx or CSV file. Where a row has its class, as read_csv() takes it.
Input typed_input(const Task&, const std::string&, const std::string& class_column = {});

// At most so many of 0 … count − 1, spread evenly.
std::vector<size_t> spread(size_t count, size_t most);

}  // namespace fovea::tasks
