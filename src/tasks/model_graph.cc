#include "tasks/model_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "report/heatmap.h"

namespace fovea::tasks {
namespace {

// A part as the models name it, in the order of the flow. A family has parts 0, 1, … of its own,
// one after the other.
struct KnownPart {
  const char *name, *title, *about;
  std::vector<const char*> reads;
  bool family = false;
};

const std::vector<KnownPart>& known_parts() {
  static const std::vector<KnownPart> all = {
      {"source", "Source embedding", "a vector for each token that is read", {}},
      {"words.embedding", "Word embedding", "a vector for each word", {}},
      {"stem", "Convolutions", "the image becomes a grid of places", {}},
      {"grid", "Convolutions", "the image becomes a grid of places", {}},
      {"filters", "Convolution", "filters over the whole image", {}},
      {"first", "First layer", "all pixels at once", {}},
      {"see", "What is seen", "the pixels of a glimpse", {}},
      {"where", "Where it is", "the place of a glimpse", {}},
      {"join", "Glimpse", "what and where in one vector", {"see", "where"}},
      {"core", "Recurrent core", "what all glimpses so far add up to", {"join"}},
      {"locate", "Locator", "from the state towards a place", {"core"}},
      {"aim", "Next place", "where the next glimpse goes", {"locate"}},
      {"look", "Attention", "all places at once, weighed", {"core"}},
      {"encoder", "Encoder", "reads the source", {"source"}, true},
      {"initial", "First state", "how the decoder begins", {"encoder", "grid"}, true},
      {"target", "Target embedding", "a vector for each token that is written", {}},
      {"decoder", "Decoder", "writes, token by token", {"target", "initial"}, true},
      {"attention of the decoder",
       "Attention",
       "compares the decoder's state with what was read",
       {"decoder", "encoder", "grid"}},
      {"gate", "Gate", "how much of what was looked at is used", {"decoder"}},
      {"readout",
       "Readout",
       "state and context in one vector",
       {"decoder", "attention of the decoder", "gate"}},
      {"words", "Words", "each word among its neighbours", {"words.embedding"}, true},
      {"attention over words", "Attention over words", "how much each word counts", {"words"}},
      {"sentences",
       "Sentences",
       "each sentence among its neighbours",
       {"attention over words", "words"},
       true},
      {"attention over sentences",
       "Attention over sentences",
       "how much each sentence counts",
       {"sentences"}},
      {"block", "Residual block", "each place with its neighbours", {"stem"}, true},
      {"attention", "Attention", "places look at each other, gated", {"block"}},
      {"second", "Second layer", "", {"first", "filters"}},
      {"baseline", "Baseline", "the reward that is expected; for training alone", {"core"}},
      {"output",
       "Output",
       "a score for each token or class",
       {"readout", "attention over sentences", "attention over words", "words.embedding", "decoder",
        "encoder", "block", "second", "core"}},
  };
  return all;
}

bool is_number(std::string_view s) {
  return !s.empty() && std::ranges::all_of(s, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string beginning(const std::string& name) { return name.substr(0, name.find('.')); }

// Of "encoder.0.self.in.weight" the part "encoder.0"; of a recurrent encoder's, "encoder".
std::string part_of_tensor(const std::string& name) {
  const std::string first = beginning(name);
  const std::string rest = name.size() > first.size() ? name.substr(first.size() + 1) : "";
  if (name.starts_with("words.embedding")) return "words.embedding";
  if (first == "score" || first == "keys" || first == "window") return "attention of the decoder";
  if (first == "words" || first == "sentences") {
    for (const char* of : {"query", "score.", "keys.", "window.", "baseline."}) {
      if (rest.starts_with(of)) return "attention over " + first;
    }
  }
  if (first == "stem" || first == "grid") return first;
  const std::string second = beginning(rest);
  if (is_number(second)) return first + "." + second;
  return second == "norm" && first != "norm" ? first + ".norm" : first;
}

using ByName = std::map<std::string, ModelPart>;

// Heads by the layers that a block has.
std::vector<std::string> layers_in(const ModelPart& part) {
  std::set<std::string> layers;
  for (const auto& [name, tensor] : part.tensors) {
    for (const char* kind : {".self.", ".cross."}) {
      const size_t at = name.find(kind);
      if (at != std::string::npos) layers.insert(name.substr(0, at + std::string(kind).size() - 1));
    }
  }
  return {layers.begin(), layers.end()};
}

// The parts of a family in their order: 0, 1, …, the norm after them; or the one without numbers.
std::vector<std::string> members_of(const ByName& parts, const std::string& family) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const auto& [name, part] : parts) {
    if (name == family) found.emplace_back(-1, name);
    if (!name.starts_with(family + ".") || name == "words.embedding") continue;
    const std::string last = name.substr(family.size() + 1);
    found.emplace_back(is_number(last) ? std::stoll(last) : INT64_MAX, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [number, name] : found) names.push_back(name);
  return names;
}

// The last part of a family, or the part of this name; nothing where the model has none.
std::optional<std::string> end_of(const ByName& parts, const char* name) {
  const std::vector<std::string> members = members_of(parts, name);
  if (members.empty()) return {};
  return members.back();
}

ByName by_part(const Run& run) {
  ByName parts;
  for (const auto& [name, tensor] : run.tensors()) {
    ModelPart& part = parts[part_of_tensor(name)];
    part.name = part_of_tensor(name);
    part.tensors[name] = tensor;
  }
  // A score without parameters, an output that is the embedding: parts that own no tensors.
  const bool looks = !run.config().attention().starts_with("none");
  if (parts.contains("readout") && looks) {
    parts["attention of the decoder"].name = "attention of the decoder";
  }
  if (parts.contains("decoder.0") && !parts.contains("output")) parts["output"].name = "output";
  for (auto& [name, part] : parts) part.looks = layers_in(part);
  for (const char* look :
       {"attention of the decoder", "attention over words", "look", "attention"}) {
    if (parts.contains(look)) parts[look].looks = {"look"};
  }
  return parts;
}

void read_from(ModelPart& part, const ByName& parts, const KnownPart& known) {
  for (const char* from : known.reads) {
    const std::optional<std::string> end = end_of(parts, from);
    if (end && *end != part.name) part.reads.push_back(*end);
  }
}

// Of several that would do, the output reads the last in the flow alone.
void describe(ByName& parts, const KnownPart& known, std::vector<ModelPart>& out) {
  const std::vector<std::string> members =
      known.family ? members_of(parts, known.name)
                   : (parts.contains(known.name) ? std::vector<std::string>{known.name}
                                                 : std::vector<std::string>{});
  std::string before;
  for (const std::string& name : members) {
    ModelPart part = parts.at(name);
    const std::string last = name.substr(std::string(known.name).size());
    part.title = known.title;
    if (last == ".norm") part.title += ": norm";
    if (last.size() > 1 && last != ".norm") {
      part.title += fmt::format(", {} {}", part.looks.empty() ? "layer" : "block",
                                std::stoll(last.substr(1)) + 1);
    }
    part.about = known.about;
    if (!before.empty()) part.reads.push_back(before);
    if (before.empty()) read_from(part, parts, known);
    for (const std::string& layer : part.looks) {
      const std::optional<std::string> encoded = end_of(parts, "encoder");
      if (layer.ends_with(".cross") && encoded) part.reads.push_back(*encoded);
    }
    if (name == "output" && !part.reads.empty()) part.reads.resize(1);
    if (name == "output" && part.tensors.empty()) part.about += "; it is the target's embedding";
    before = name;
    out.push_back(std::move(part));
  }
}

}  // namespace

int64_t ModelPart::numbers() const {
  int64_t n = 0;
  for (const auto& named : tensors) n += named.second.numel();
  return n;
}

std::vector<ModelPart> parts_of(const Run& run) {
  ByName parts = by_part(run);
  std::vector<ModelPart> out;
  for (const KnownPart& known : known_parts()) describe(parts, known, out);
  // Attention between convolutions stands before the last of them.
  const auto attention = std::ranges::find(out, "attention", &ModelPart::name);
  if (attention != out.end() && attention->reads.size() == 1) {
    const auto last = std::ranges::find(out, attention->reads.front(), &ModelPart::name);
    std::swap(attention->reads, last->reads);
    last->reads = {"attention"};
  }
  // What no model here has: as it is called, beside the others.
  for (auto& [name, part] : parts) {
    if (std::ranges::find(out, name, &ModelPart::name) != out.end()) continue;
    part.title = name;
    out.push_back(part);
  }
  return out;
}

MatrixSeen seen_of(const Tensor& tensor, int64_t most) {
  const std::vector<float> all = tensor.detach().to(DType::f32).contiguous().to_vector();
  MatrixSeen m;
  m.rows = tensor.rank() < 2 ? 1 : tensor.size(0);
  m.columns = static_cast<int64_t>(all.size()) / std::max<int64_t>(m.rows, 1);
  const int64_t rows = std::min(m.rows, most), columns = std::min(m.columns, most);
  m.weights.assign(static_cast<size_t>(rows * columns), 0.0f);
  double sum = 0, squares = 0;
  m.least = m.largest = all.empty() ? 0 : static_cast<double>(all.front());
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.columns; ++j) {
      const float w = all[static_cast<size_t>(i * m.columns + j)];
      sum += static_cast<double>(w);
      squares += static_cast<double>(w) * static_cast<double>(w);
      m.least = std::min(m.least, static_cast<double>(w));
      m.largest = std::max(m.largest, static_cast<double>(w));
      float& part =
          m.weights[static_cast<size_t>(i * rows / m.rows * columns + j * columns / m.columns)];
      if (std::abs(w) > std::abs(part)) part = w;
    }
  }
  const auto n = static_cast<double>(std::max<size_t>(all.size(), 1));
  m.mean = sum / n;
  m.deviation = std::sqrt(std::max(0.0, squares / n - m.mean * m.mean));
  m.norm = std::sqrt(squares);
  const auto names = [](int64_t shown, int64_t of) {
    std::vector<std::string> made;
    for (int64_t i = 0; i < shown; ++i) {
      const int64_t from = (i * of + shown - 1) / shown, to = ((i + 1) * of - 1) / shown;
      made.push_back(from >= to ? fmt::format("{}", from) : fmt::format("{}–{}", from, to));
    }
    return made;
  };
  m.row_names = names(rows, m.rows);
  m.column_names = names(columns, m.columns);
  return m;
}

report::Picture picture_of(const std::string& title, const MatrixSeen& m) {
  return report::Heatmap{.title = title,
                         .rows = m.row_names,
                         .columns = m.column_names,
                         .weights = m.weights,
                         .scale = report::Scale::around_zero,
                         .axes = {"row", "column"}};
}

}  // namespace fovea::tasks
