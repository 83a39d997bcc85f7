// Text to tokens, timed.
//   tokens         a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"folder": FOLDER, "file": FILE}}    a tokenizer, and lines of text
//     {"encode": {}}                                all lines, one after another
// bench/tokens.py drives it beside the package that such tokenizers are made with.
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "serve.h"
#include "tokens/tokenizer.h"

namespace {

using fovea::bench::Json;

// Of this process: other programs on the machine count for neither side.
int64_t processor_ns() {
  return static_cast<int64_t>(1e9 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Loaded {
  fovea::tokens::Tokenizer tokenizer;
  int64_t ns;
};

Loaded load(const std::string& folder) {
  const int64_t start = processor_ns();
  fovea::tokens::Tokenizer tokenizer = fovea::tokens::open_tokenizer(folder);
  return {std::move(tokenizer), processor_ns() - start};
}

class Texts {
 public:
  explicit Texts(const Json& options)
      : loaded_(load(options.at("folder"))), lines_(lines_of(options.at("file"))) {}

  Json encode(const Json&) {
    const int64_t start = processor_ns();
    size_t tokens = 0;
    for (const std::string& line : lines_) tokens += loaded_.tokenizer.encode(line).size();
    return {{"ns", processor_ns() - start}, {"tokens", tokens}, {"open_ns", loaded_.ns}};
  }

 private:
  Loaded loaded_;
  std::vector<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::serve_model<Texts>(argc, argv, {{"encode", &Texts::encode}});
}
