#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/lines.h"

// Texts with a label each, as people keep them: found out from the path.
//   a folder    a folder a class, a file a document; what else lies there is passed by
//   .csv        a first line that names its columns, between commas, semicolons or tabs; quotes,
//   and
//               line breaks within them
//   .jsonl      {"label": …, "text": …} a line (.ndjson and .json too)
//   any other   label<TAB>text a line; a first line that names the columns gives their order, and
//               there may be others
// Each plain or gzipped. CRLF is accepted, a byte order mark dropped, empty lines are skipped,
// invalid UTF-8 is replaced where it is rare. What else is wrong throws with the file and the line:
// a column that is missing or has no name, an empty label or text, a zero byte, a quote that is not
// closed, more than 1 MB of one document; and a file with no documents.
namespace fovea::text {

struct Labelled {
  std::string label, text;
};
struct Columns {
  std::string label = "label", text = "text";
};

std::vector<Labelled> read_labelled(const std::filesystem::path&, const Columns& = {});

std::vector<Labelled> parse_labelled_tsv(LineReader, const Columns& = {});
std::vector<Labelled> parse_labelled_csv(LineReader, const Columns& = {});
std::vector<Labelled> parse_labelled_jsonl(LineReader, const Columns& = {});

}  // namespace fovea::text
