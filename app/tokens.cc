#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/print.h"
#include "app/verbs.h"
#include "checkpoints/folder.h"
#include "fovea/error.h"
#include "fovea/text.h"
#include "io/json.h"
#include "io/plain_file.h"
#include "report/label.h"
#include "text/lines.h"
#include "tokens/tokenizer.h"

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

struct TokensOptions {
  std::string model, text, pair, file, lines, decode;
  bool json = false, plain = false, target = false;
};

std::string read_all(const std::string& file) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  try {
    return read_plain_file(file, kMost);
  } catch (const Unreadable& e) {
    throw Error("tokens", fmt::format("{}: {}", file, e.what()));
  }
}

std::vector<int64_t> ids_in(const std::string& typed) {
  std::vector<int64_t> ids;
  const char* at = typed.data();
  const char* const end = at + typed.size();
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == '\n' || *at == '[' || *at == ']') {
      ++at;
      continue;
    }
    int64_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc{} || id < 0) {
      throw Error("tokens", fmt::format("--decode takes ids such as '15496 995', found {}", typed));
    }
    ids.push_back(id);
    at = after;
  }
  return ids;
}

std::vector<int64_t> ids_of(const std::vector<tokens::Token>& all) {
  std::vector<int64_t> ids;
  for (const tokens::Token& token : all) ids.push_back(token.id);
  return ids;
}

Json json_of(const tokens::Tokenizer& tokenizer, const std::vector<tokens::Token>& all) {
  Json pieces = Json::array(), places = Json::array(), types = Json::array();
  for (const tokens::Token& token : all) {
    pieces.push_back(tokenizer.piece(token.id));
    places.push_back({token.begin, token.end});
    types.push_back(token.type);
  }
  const std::vector<int64_t> ids = ids_of(all);
  return {{"ids", ids},
          {"pieces", pieces},
          {"offsets", places},
          {"types", types},
          {"decoded", tokenizer.decode(ids)},
          {"decoded_whole", tokenizer.decode(ids, tokens::KeptTokens::all)}};
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A token a line: id, bytes, and the token as people read it, between bars that show its spaces.
std::string table_of(const tokens::Tokenizer& tokenizer, const std::vector<tokens::Token>& all) {
  std::string text = fmt::format("{:>8}  {:>13}  token\n", "id", "bytes");
  for (const tokens::Token& token : all) {
    const std::string place = token.begin == 0 && token.end == 0 && tokenizer.special(token.id)
                                  ? "added"
                                  : fmt::format("{}–{}", token.begin, token.end);
    text += fmt::format("{:>8}  {:>{}}  |{}|\n", token.id, place, 13,
                        report::for_terminal(tokenizer.shown(token.id)));
  }
  return text + fmt::format("{} tokens ({})\n", all.size(), tokenizer.about());
}

std::vector<tokens::Token> encode(const tokens::Tokenizer& tokenizer, const TokensOptions& o,
                                  const std::string& text) {
  const auto specials = o.plain ? tokens::Specials::none : tokens::Specials::add;
  return o.pair.empty() ? tokenizer.encode(text, specials)
                        : tokenizer.encode_pair(text, o.pair, specials);
}

// A file of many texts: a line of JSON for each.
void print_lines(const tokens::Tokenizer& tokenizer, const TokensOptions& o) {
  const bool json = o.lines.ends_with(".jsonl");
  const std::string all = read_all(o.lines);
  int64_t number = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    at = end + 1;
    ++number;
    if (json) {
      const Json value = parse_json(line, fmt::format("{}:{}", o.lines, number));
      if (!value.is_string()) {
        throw Error("tokens", fmt::format("{}:{}: expected a text in quotes", o.lines, number));
      }
      line = value.get<std::string>();
    }
    print_text(one_line(json_of(tokenizer, encode(tokenizer, o, line))));
  }
}

void check(const TokensOptions& o, size_t texts) {
  const size_t given = texts + !o.file.empty() + !o.lines.empty() + !o.decode.empty();
  if (given != 1) {
    throw Error("tokens", "expected one of a TEXT, --file, --lines and --decode (--help explains)");
  }
  if (!o.decode.empty() && (!o.pair.empty() || o.plain)) {
    throw Error("tokens", "--pair and --plain are for texts, not for --decode");
  }
}

void run(const TokensOptions& o, size_t texts) {
  check(o, texts);
  const std::filesystem::path folder = checkpoints::folder_of(o.model);
  const tokens::Tokenizer tokenizer =
      o.target ? tokens::open_target_tokenizer(folder) : tokens::open_tokenizer(folder);
  if (!o.decode.empty()) {
    const std::vector<int64_t> ids = ids_in(o.decode);
    const std::string text = tokenizer.decode(ids, tokens::KeptTokens::all);
    print_text(o.json ? one_line({{"text", text}, {"without_special", tokenizer.decode(ids)}})
                      : text + "\n");
  } else if (!o.lines.empty()) {
    print_lines(tokenizer, o);
  } else {
    const std::string text = o.file.empty() ? o.text : read_all(o.file);
    const std::vector<tokens::Token> all = encode(tokenizer, o, text);
    print_text(o.json ? one_line(json_of(tokenizer, all)) : table_of(tokenizer, all));
  }
}

}  // namespace

void add_tokens(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "tokens",
      "What a model's tokenizer makes of a text: ids, pieces and the bytes they come from.\n"
      "  fovea tokens MODEL \"Hello world\"        a table: a token a line, its spaces between "
      "bars\n"
      "  fovea tokens MODEL \"Hello\" --json       ids, pieces, offsets, types, and the text "
      "again\n"
      "  fovea tokens MODEL --file story.txt     a file as one text\n"
      "  fovea tokens MODEL --lines many.txt     a line of JSON for every line\n"
      "  fovea tokens MODEL --decode '15496 995' ids back to text\n"
      "MODEL is a folder with tokenizer.json; or vocab.txt; or vocab.json and merges.txt; or\n"
      "source.spm and target.spm (Marian); or tokenizer.model or spiece.model. The ids are those "
      "of\n"
      "the library that the model was trained with. Bytes are whole characters of the text; what\n"
      "the tokenizer adds by itself ([CLS], <s>) comes from none, and says \"added\". Bytes that "
      "are\n"
      "no UTF-8 count as U+FFFD. docs/models.md lists what is understood.");
  auto o = std::make_shared<TokensOptions>();
  verb->add_option("MODEL", o->model, "The model's folder")->required()->check(not_empty);
  CLI::Option* text = verb->add_option("TEXT", o->text, "The text");
  verb->add_option("--pair", o->pair, "A second text, as in question and answer");
  verb->add_option("--file", o->file, "Read the text from a file")
      ->check(not_empty)
      ->type_name("FILE");
  verb->add_option("--lines", o->lines,
                   "Every line of a file is a text; of a .jsonl file, a text in quotes")
      ->check(not_empty)
      ->type_name("FILE");
  verb->add_option("--decode", o->decode, "Ids, with spaces or commas between them")
      ->check(not_empty)
      ->type_name("IDS");
  verb->add_flag("--plain", o->plain, "Without the special tokens that are added");
  verb->add_flag("--target", o->target, "Of a translator, the side that it writes");
  verb->add_flag("--json", o->json, "For programs to read");
  verb->callback([o, text] { run(*o, text->count()); });
}

}  // namespace fovea::app
