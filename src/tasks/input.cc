#include "tasks/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "fovea/error.h"
#include "image/csv.h"
#include "image/idx.h"
#include "image/image_file.h"
#include "tasks/coder.h"
#include "tasks/task.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

int64_t number_in(const std::string& name, const std::string& digits) {
  int64_t n = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 0) {
    throw Error("predict", fmt::format("'{}': expected a number after the colon, from 0 on", name));
  }
  return n;
}

[[noreturn]] void fail_count(const std::string& name, size_t count) {
  throw Error("predict", fmt::format("'{}': there are {} images, counted from 0", name, count));
}

// Whatever is nothing else may be CSV.
image::CsvImages rows_in(const std::string& file, const std::string& class_column) {
  try {
    return image::read_csv(file, class_column);
  } catch (const Error& error) {
    if (fs::path(file).extension() == ".csv") throw;
    throw Error("predict",
                fmt::format("{} is neither PNG nor JPEG, and as CSV it cannot be read: {}", file,
                            error.message()));
  }
}

GivenImage row_of(const std::string& name, const std::string& file, int64_t n,
                  const std::string& class_column) {
  std::vector<image::Image> all;
  if (image::is_idx(file)) {
    all = image::images_of(file, image::read_idx(file));
  } else {
    for (image::LabelledImage& one : rows_in(file, class_column).images) {
      all.push_back(std::move(one.image));
    }
  }
  if (n >= static_cast<int64_t>(all.size())) fail_count(name, all.size());
  return {std::move(all[static_cast<size_t>(n)]), name, GivenImage::Kind::row};
}

// Of several images, as idx or CSV: whatever neither is called nor begins like a picture.
bool has_rows(const std::string& file) {
  return fs::exists(file) && !image::is_image_name(file) && !image::is_image(file);
}

GivenImage picture_in(const std::string& name, const std::string& class_column) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || fs::exists(name)) {
    if (has_rows(name)) return row_of(name, name, 0, class_column);
    return {image::read_image(name), name};
  }
  const std::string file = name.substr(0, colon);
  const int64_t n = number_in(name, name.substr(colon + 1));
  if (has_rows(file)) return row_of(name, file, n, class_column);
  if (n > 0) fail_count(name, 1);
  return {image::read_image(file), name};
}

}  // namespace

std::string name_of(const Input& input) {
  if (const auto* text = std::get_if<Text>(&input)) return text->text;
  if (const auto* picture = std::get_if<GivenImage>(&input)) return picture->name;
  const Own& own = std::get<Own>(input);
  return fmt::format("{}:{}", own.set, own.number);
}

const std::string& text_of(const Input& input) {
  if (const auto* text = std::get_if<Text>(&input)) return text->text;
  throw Error("predict", "this run reads text, found an image");
}

std::vector<std::string> texts_of(std::span<const Input> inputs) {
  std::vector<std::string> texts;
  for (const Input& input : inputs) texts.push_back(text_of(input));
  return texts;
}

std::vector<Piece> read_pieces(const Coder& coder, const std::string& text) {
  std::vector<Piece> all;
  if (coder.theirs() != nullptr) {
    for (const int64_t id : coder.encode(text, tokens::Specials::add)) {
      all.push_back({coder.token(id), !coder.is_unknown(id)});
    }
    return all;
  }
  const text::Tokenizer& tokenizer = *coder.own();
  for (size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::vector<int64_t> ids = tokenizer.encode(line);
    const std::vector<std::string> own = tokenizer.pieces(line);
    for (size_t i = 0; i < own.size(); ++i) {
      all.push_back({own[i], i >= ids.size() || ids[i] != text::kUnknown});
    }
  }
  return all;
}

std::vector<Input> spread_of(const std::vector<std::string>& texts, size_t most) {
  std::vector<Input> some;
  for (const size_t i : spread(texts.size(), most)) some.emplace_back(Text{texts[i]});
  return some;
}

const Own& own_of(const Input& input) {
  if (const auto* own = std::get_if<Own>(&input)) return *own;
  throw Error("predict", "this run sees images, found a text");
}

std::optional<Set> set_of(const Own& own) {
  for (const Set set : {Set::train, Set::valid, Set::test}) {
    if (own.set == name_of(set)) return set;
  }
  return {};
}

std::optional<Own> own_from(const Task& task, const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos || colon == 0) return {};
  Own own{.set = name.substr(0, colon)};
  if (own.set != task.drawn && !set_of(own)) return {};
  own.number = number_in(name, name.substr(colon + 1));
  return own;
}

size_t index_of(const Own& own, size_t count) {
  if (own.number < 0 || own.number >= static_cast<int64_t>(count)) fail_count(name_of(own), count);
  return static_cast<size_t>(own.number);
}

Input typed_input(const Task& task, const std::string& typed, const std::string& class_column) {
  if (task.takes == Takes::text) return Text{typed};
  if (std::optional<Own> own = own_from(task, typed)) return *own;
  return picture_in(typed, class_column);
}

std::vector<size_t> spread(size_t count, size_t most) {
  const size_t n = std::min(count, most);
  std::vector<size_t> some;
  for (size_t i = 0; i < n; ++i) some.push_back((2 * i + 1) * count / (2 * n));
  return some;
}

}  // namespace fovea::tasks
