#include "text/labelled.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>

#include "fovea/error.h"
#include "io/json.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kCall = "read_labelled";
constexpr size_t kLongestLabel = 200;  // bytes

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return is_ascii_space(static_cast<unsigned char>(c)); };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// For a message: a piece of what was found.
std::string shown(std::string_view text) {
  std::string piece;
  for (const std::string& c : characters(text.substr(0, 40))) {
    piece += static_cast<unsigned char>(c[0]) < 0x20 || c[0] == 0x7F ? "?" : c;
  }
  return "'" + piece + (text.size() > 40 ? "…'" : "'");
}

std::string names_of(std::span<const std::string> columns) {
  std::vector<std::string> names;
  for (const std::string& c : columns.first(std::min<size_t>(columns.size(), 12))) {
    names.push_back(shown(c));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), columns.size() > 12 ? ", …" : "");
}

Labelled checked(const Lines& lines, std::string_view label, std::string_view text) {
  Labelled one{std::string(trimmed(label)), std::string(trimmed(text))};
  if (one.label.empty()) lines.fail("the label is empty");
  if (one.text.empty()) lines.fail("the text is empty");
  if (one.label.size() > kLongestLabel) {
    lines.fail(fmt::format("a label of {} bytes, {}; at most {} are allowed: is it the text?",
                           one.label.size(), shown(one.label), kLongestLabel));
  }
  return one;
}

struct Places {
  size_t label = 0, text = 1;
};

std::optional<Places> find_columns(std::span<const std::string> header, const Columns& names) {
  const auto find = [&](const std::string& name) {
    return static_cast<size_t>(
        std::find_if(header.begin(), header.end(),
                     [&](const std::string& field) { return trimmed(field) == name; }) -
        header.begin());
  };
  const Places at{find(names.label), find(names.text)};
  if (at.label == header.size() || at.text == header.size()) return {};
  return at;
}

std::vector<std::string> fields_between_tabs(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t from = 0; from <= line.size();) {
    const size_t tab = std::min(line.find('\t', from), line.size());
    fields.push_back(line.substr(from, tab - from));
    from = tab + 1;
  }
  return fields;
}

// Records of a CSV file: fields between commas; a quoted one has "" for a quote, and may hold
// commas and line breaks.
class Records {
 public:
  explicit Records(Lines& lines) : lines_(lines) {}

  bool next(std::vector<std::string>& fields) {  // false at the end
    do {
      if (!lines_.next(line_)) return false;
    } while (trimmed(line_).empty());
    began_ = lines_.number(), bytes_ = line_.size(), at_ = 0;
    fields.clear();
    for (bool more = true; more; ++at_) {
      fields.push_back(at_ < line_.size() && line_[at_] == '"' ? quoted() : plain());
      more = at_ < line_.size();  // a comma
    }
    return true;
  }

 private:
  std::string plain() {
    const size_t from = at_;
    at_ = std::min(line_.find(',', from), line_.size());
    return line_.substr(from, at_ - from);
  }

  std::string quoted() {
    std::string field;
    for (++at_;; ++at_) {
      if (at_ >= line_.size()) {
        go_on();
        field += '\n';
        at_ = static_cast<size_t>(-1);
      } else if (line_[at_] != '"') {
        field += line_[at_];
      } else if (at_ + 1 < line_.size() && line_[at_ + 1] == '"') {
        field += line_[at_++];
      } else {
        break;
      }
    }
    ++at_;
    if (at_ < line_.size() && line_[at_] != ',') lines_.fail("text after a closing quote");
    return field;
  }

  void go_on() {
    if (!lines_.next(line_)) {
      lines_.fail(fmt::format("a quote of the record of line {} is not closed", began_));
    }
    bytes_ += line_.size();
    if (bytes_ > kMaxLine) {
      lines_.fail(
          fmt::format("a record of more than {} bytes since line {}: is a quote not closed?",
                      kMaxLine, began_));
    }
  }

  Lines& lines_;
  std::string line_;
  size_t at_ = 0, bytes_ = 0;
  int64_t began_ = 0;
};

std::string text_of(const Lines& lines, const Json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& item : object.items()) names.push_back(item.key());
    lines.fail(fmt::format("there is no \"{}\"; there are {}", name, names_of(names)));
  }
  std::string text;
  if (found->is_string()) {
    text = found->get<std::string>();
  } else if (found->is_number() || found->is_boolean()) {
    text = found->dump();
  } else {
    lines.fail(fmt::format("\"{}\" must be a string, found {}", name, found->type_name()));
  }
  if (text.find('\0') != text.npos) lines.fail("a zero byte");
  return text;
}

// Names in the order of their bytes; hidden ones are passed by.
std::vector<fs::path> entries_of(const fs::path& folder, bool folders) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (folders ? at->is_directory(ignored) : at->is_regular_file(ignored)) {
      all.push_back(at->path());
    }
  }
  if (error) throw Error(kCall, folder.string() + ": " + error.message());
  std::sort(all.begin(), all.end());
  return all;
}

std::string whole_text(const fs::path& file) {
  Lines lines = Lines::of_file(kCall, file);
  std::string text;
  for (std::string line; lines.next(line);) {
    text += line + '\n';
    if (text.size() > kMaxLine) {
      lines.fail(fmt::format("a document of more than {} bytes", kMaxLine));
    }
  }
  text = std::string(trimmed(text));
  if (text.empty()) throw Error(kCall, file.string() + ": the text is empty");
  return text;
}

std::vector<Labelled> read_folders(const fs::path& folder) {
  std::vector<Labelled> all;
  for (const fs::path& one : entries_of(folder, true)) {
    const std::vector<fs::path> files = entries_of(one, false);
    const std::string label = valid_utf8(one.filename().string());
    if (files.empty()) throw Error(kCall, one.string() + ": no documents in the folder of a class");
    for (const fs::path& file : files) all.push_back({label, whole_text(file)});
  }
  if (all.empty()) {
    throw Error(kCall, folder.string() +
                           ": expected a folder for each class, with a file for each "
                           "document");
  }
  return all;
}

}  // namespace

std::vector<Labelled> parse_labelled_tsv(Lines lines, const Columns& names) {
  std::vector<Labelled> all;
  Places at;
  bool first = true;
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const std::vector<std::string> fields = fields_between_tabs(line);
    const std::optional<Places> header = first ? find_columns(fields, names) : std::nullopt;
    first = false;
    if (header) {
      at = *header;
      continue;
    }
    if (fields.size() <= std::max(at.label, at.text)) lines.fail("expected label<TAB>text");
    all.push_back(checked(lines, fields[at.label], fields[at.text]));
  }
  if (all.empty()) lines.fail("no documents");
  return all;
}

std::vector<Labelled> parse_labelled_csv(Lines lines, const Columns& names) {
  Records records(lines);
  std::vector<std::string> fields;
  if (!records.next(fields)) lines.fail("no documents");
  const std::optional<Places> at = find_columns(fields, names);
  if (!at) {
    lines.fail(fmt::format("expected columns '{}' and '{}', found {}", names.label, names.text,
                           names_of(fields)));
  }
  std::vector<Labelled> all;
  const size_t columns = fields.size();
  while (records.next(fields)) {
    if (fields.size() != columns) {
      lines.fail(fmt::format("{} fields, the first line names {}", fields.size(), columns));
    }
    all.push_back(checked(lines, fields[at->label], fields[at->text]));
  }
  if (all.empty()) lines.fail("no documents");
  return all;
}

std::vector<Labelled> parse_labelled_jsonl(Lines lines, const Columns& names) {
  std::vector<Labelled> all;
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const Json object = parse_json(line, fmt::format("{}:{}", lines.name(), lines.number()));
    if (!object.is_object()) {
      lines.fail(fmt::format("expected an object, found {}", object.type_name()));
    }
    const std::string label = text_of(lines, object, names.label);
    all.push_back(checked(lines, label, text_of(lines, object, names.text)));
  }
  if (all.empty()) lines.fail("no documents");
  return all;
}

std::vector<Labelled> read_labelled(const fs::path& path, const Columns& names) {
  std::error_code error;
  if (fs::is_directory(path, error)) return read_folders(path);
  fs::path plain = path;
  if (plain.extension() == ".gz") plain.replace_extension();
  const std::string ending = lowercase(plain.extension().string());
  Lines lines = Lines::of_file(kCall, path);
  if (ending == ".csv") return parse_labelled_csv(std::move(lines), names);
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") {
    return parse_labelled_jsonl(std::move(lines), names);
  }
  return parse_labelled_tsv(std::move(lines), names);
}

}  // namespace fovea::text
