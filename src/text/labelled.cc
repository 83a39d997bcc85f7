#include "text/labelled.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>

#include "fovea/error.h"
#include "io/json.h"
#include "text/messages.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kCall = "read_labelled";
constexpr size_t kLongestLabel = 200;  // bytes
constexpr const char* kHowColumnsAreNamed =
    "a TSV file has the label first, or a first line that names its columns, text<TAB>label";

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return is_ascii_space(static_cast<unsigned char>(c)); };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string names_of(std::span<const std::string> columns) {
  std::vector<std::string> names;
  for (const std::string& c : columns.first(std::min<size_t>(columns.size(), 12))) {
    names.push_back(quoted_piece(c));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), columns.size() > 12 ? ", …" : "");
}

Labelled checked(const LineReader& lines, std::string_view label, std::string_view text) {
  Labelled one{std::string(trimmed(label)), std::string(trimmed(text))};
  if (is_blank(one.label)) lines.fail("the label is empty");
  if (is_blank(one.text)) lines.fail("the text is empty");
  if (one.label.size() > kLongestLabel) {
    lines.fail(fmt::format("a label of {} bytes, {}; at most {} are allowed: is it the text? {}",
                           one.label.size(), quoted_piece(one.label), kLongestLabel,
                           kHowColumnsAreNamed));
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

// Records of a CSV file: fields between commas, or what else separates those of the first line; a
// quoted one has "" for a quote, and may hold commas and line breaks.
class Records {
 public:
  explicit Records(LineReader& lines) : lines_(lines) {}

  bool next(std::vector<std::string>& fields) {  // false at the end
    do {
      if (!lines_.next(line_)) return false;
    } while (trimmed(line_).empty());
    if (began_ == 0) separator_ = separator_in(line_);
    began_ = lines_.number(), bytes_ = line_.size(), at_ = 0;
    fields.clear();
    for (bool more = true; more; ++at_) {
      fields.push_back(at_ < line_.size() && line_[at_] == '"' ? quoted() : plain());
      more = at_ < line_.size();  // a separator
    }
    return true;
  }

 private:
  std::string plain() {
    const size_t from = at_;
    at_ = std::min(line_.find(separator_, from), line_.size());
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
    if (at_ < line_.size() && line_[at_] != separator_) {
      lines_.fail(
          fmt::format("text after a closing quote; a quote within a field is doubled, and "
                      "fields are separated by '{}'",
                      separator_));
    }
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

  LineReader& lines_;
  std::string line_;
  char separator_ = ',';
  size_t at_ = 0, bytes_ = 0;
  int64_t began_ = 0;
};

std::string text_of(const LineReader& lines, const Json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& item : object.items()) names.push_back(item.key());
    lines.fail(
        fmt::format("there is no \"{}\"; there are {}; --label-column and --text-column "
                    "name them",
                    name, names_of(names)));
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
    const bool leads_nowhere = at->is_symlink(ignored) && !at->exists(ignored);
    if (leads_nowhere) throw Error(kCall, at->path().string() + " is a link to nothing");
    if (folders ? at->is_directory(ignored) : at->is_regular_file(ignored)) {
      all.push_back(at->path());
    }
  }
  if (error) throw Error(kCall, folder.string() + ": " + error.message());
  std::sort(all.begin(), all.end());
  return all;
}

std::string whole_text(const fs::path& file) {
  LineReader lines = LineReader::of_file(kCall, file);
  std::string text;
  for (std::string line; lines.next(line);) {
    text += line + '\n';
    if (text.size() > kMaxLine) {
      lines.fail(fmt::format("a document of more than {} bytes", kMaxLine));
    }
  }
  text = std::string(trimmed(text));
  if (is_blank(text)) throw Error(kCall, file.string() + ": the text is empty");
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

// Columns of a TSV file: as many as its first line names, or label and text alone.
void expect_columns(const LineReader& lines, std::vector<std::string>& fields, size_t named,
                    const Places& at) {
  const size_t most = std::max<size_t>(named, 2);
  while (fields.size() > most && trimmed(fields.back()).empty()) fields.pop_back();
  const size_t n = fields.size();
  const bool too_few = n <= std::max(at.label, at.text);
  if (!too_few && n <= most) return;
  if (named > 0) {
    lines.fail(fmt::format("{} columns, the first line names {}{}", n, named,
                           too_few ? "" : "; a tab within a text must become a blank"));
  }
  if (too_few) lines.fail("expected label<TAB>text, found " + quoted_piece(fields.front()));
  lines.fail(
      fmt::format("{} columns, expected label<TAB>text; a tab within a text must become a "
                  "blank, and where there are other columns, a first line names them all: "
                  "label<TAB>text<TAB>…",
                  n));
}

// "sentiment<TAB>review" above documents of which no other has such a class.
void expect_no_header(const LineReader& lines, const std::vector<Labelled>& all, int64_t line) {
  constexpr size_t kFewest = 10;
  const Labelled& first = all.front();
  if (all.size() < kFewest || first.text.find_first_of(" \t") != std::string::npos) return;
  std::map<std::string_view, int64_t> count;
  for (const Labelled& one : all) ++count[one.label];
  const bool alone = count[first.label] == 1;
  const bool others_are_not =
      std::count_if(count.begin(), count.end(), [](const auto& c) { return c.second == 1; }) == 1;
  if (!alone || !others_are_not) return;
  lines.fail_at(line, fmt::format("this looks like names of columns, {} and {}, and not like a "
                                  "document; if so, say --label-column and --text-column",
                                  quoted_piece(first.label), quoted_piece(first.text)));
}

}  // namespace

std::vector<Labelled> parse_labelled_tsv(LineReader lines, const Columns& names) {
  std::vector<Labelled> all;
  Places at;
  size_t columns = 0;  // that a first line names
  int64_t first = 0;   // line that is not empty
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    std::vector<std::string> fields = fields_between_tabs(line);
    if (first == 0) {
      first = lines.number();
      if (const std::optional<Places> header = find_columns(fields, names)) {
        at = *header;
        columns = fields.size();
        continue;
      }
    }
    expect_columns(lines, fields, columns, at);
    all.push_back(checked(lines, fields[at.label], fields[at.text]));
  }
  if (all.empty()) lines.fail("no documents");
  if (columns == 0) expect_no_header(lines, all, first);
  return all;
}

std::vector<Labelled> parse_labelled_csv(LineReader lines, const Columns& names) {
  Records records(lines);
  std::vector<std::string> fields;
  if (!records.next(fields)) lines.fail("no documents");
  const std::optional<Places> at = find_columns(fields, names);
  if (!at) {
    lines.fail(
        fmt::format("expected a first line that names the columns, '{}' and '{}' among "
                    "them, found {}; --label-column and --text-column say other names",
                    names.label, names.text, names_of(fields)));
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

std::vector<Labelled> parse_labelled_jsonl(LineReader lines, const Columns& names) {
  std::vector<Labelled> all;
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const Json object = parse_json(line, fmt::format("{}:{}", lines.name(), lines.number()));
    if (!object.is_object()) {
      lines.fail(fmt::format("expected an object a line, as jq -c '.[]' makes of a list, found {}",
                             object.type_name()));
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
  LineReader lines = LineReader::of_file(kCall, path);
  if (ending == ".csv") return parse_labelled_csv(std::move(lines), names);
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") {
    return parse_labelled_jsonl(std::move(lines), names);
  }
  return parse_labelled_tsv(std::move(lines), names);
}

}  // namespace fovea::text
