#include "tasks/explain_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "report/label.h"

namespace fovea::tasks {
namespace {

using report::Scale;

constexpr size_t kLensOutputs = 12;  // that are shown where none is asked for

std::string shown_p(double p) { return fmt::format("{:.3f}", p); }

std::string token_of(const Inside& in, int64_t id) {
  return in.side_by_side ? in.outputs.at(static_cast<size_t>(id)) : in.named(id);
}

// What a column of the lens is of: what a decoder had read there, or which output it is.
std::string read_at(const Inside& in, int64_t output) {
  if (in.side_by_side) return "the class";
  const auto at = static_cast<size_t>(output);
  const bool reads_on = in.outputs.size() == in.inputs.size();
  return reads_on ? in.inputs[at] : fmt::format("{}: {}", output + 1, in.outputs[at]);
}

// The places to look at: those that are asked for, and of many the last.
std::vector<int64_t> lens_outputs(const OfBlocks& a) {
  if (a.contrast) return {a.contrast->output};
  const bool chosen = !a.how.output.empty() || !a.how.only.empty();
  if (chosen || a.outputs.size() <= kLensOutputs) return a.outputs;
  return {a.outputs.end() - kLensOutputs, a.outputs.end()};
}

Explanation by_lens(const OfBlocks& a) {
  expect_blocks(a.in, "lens");
  const Lens lens = lens_of(a.in, {lens_outputs(a), a.how.top}, a.done);
  Explanation e{.by = By::lens, .of_outputs = false};
  e.map.title =
      "Logit lens: what each block would say; colour: how likely the last block's answer is there";
  e.map.rows = lens.blocks;
  for (const int64_t t : lens.outputs) e.map.columns.push_back(read_at(a.in, t));
  e.table.header = {"block", "at", "answer", "p", "rank", "says"};
  for (size_t i = 0; i < lens.cells.size(); ++i) {
    const Lens::Cell& cell = lens.cells[i];
    const size_t block = i / lens.outputs.size(), output = i % lens.outputs.size();
    e.map.weights.push_back(static_cast<float>(cell.p_answer));
    e.words.push_back(token_of(a.in, cell.top.front()));
    std::string says;
    for (size_t k = 0; k < cell.top.size(); ++k) {
      says += fmt::format("{}{} {}", k > 0 ? ", " : "", token_of(a.in, cell.top[k]),
                          shown_p(cell.p[k]));
    }
    const std::string answer = token_of(a.in, lens.answers[output]);
    e.notes.push_back(fmt::format("{}: {}; {} has p {} and rank {}", lens.blocks[block], says,
                                  answer, shown_p(cell.p_answer), cell.rank));
    e.table.rows.push_back({lens.blocks[block], e.map.columns[output], answer,
                            shown_p(cell.p_answer), std::to_string(cell.rank), says});
  }
  if (lens.outputs.size() < a.outputs.size() && !a.contrast) {
    e.note = fmt::format("the last {} of {} places; --output N shows another", lens.outputs.size(),
                         a.outputs.size());
  }
  return e;
}

std::vector<std::string> pattern_scores(const HeadPattern& p) {
  std::vector<std::string> all;
  for (const double x : {p.previous, p.own, p.first, p.duplicate, p.induction}) {
    all.push_back(fmt::format("{:.2f}", x));
  }
  return all;
}

report::Table ranked(std::vector<HeadFound> heads) {
  std::stable_sort(heads.begin(), heads.end(),
                   [](const HeadFound& a, const HeadFound& b) { return a.lost > b.lost; });
  report::Table table{
      {"head", "lost", "does", "previous", "own", "first", "duplicate*", "induction*"}, {}};
  for (const HeadFound& h : heads) {
    const std::vector<std::string> text = pattern_scores(h.on_text),
                                   twice = pattern_scores(h.on_repeated);
    table.rows.push_back({fmt::format("{}, head {}", title_of(h.layer), h.head + 1),
                          fmt::format("{:+.4f}", h.lost), h.does, text[0], text[1], text[2],
                          twice[3], twice[4]});
  }
  return table;
}

Explanation by_heads(const OfBlocks& a) {
  expect_heads(a.in, "heads");
  const Question q =
      a.contrast ? Question{.targets = {}, .contrast = a.contrast} : question_of(a.in, a.outputs);
  const std::vector<HeadFound> heads = heads_of(a.in, q, a.done);
  Explanation e{.by = By::heads, .of_outputs = false};
  e.map.title =
      fmt::format("Heads left out, one at a time: nats that {} loses",
                  a.contrast              ? title_of(a.in, *a.contrast)
                  : a.outputs.size() == 1 ? a.in.outputs[static_cast<size_t>(a.outputs[0])]
                                          : "an output");
  e.map.scale = Scale::around_zero;
  int64_t most = 0;
  for (const HeadFound& h : heads) most = std::max(most, h.head + 1);
  for (int64_t h = 0; h < most; ++h) e.map.columns.push_back(std::to_string(h + 1));
  for (const HeadFound& h : heads) {
    if (h.head == 0) {
      e.map.rows.push_back(h.layer);
      e.map.weights.resize(e.map.rows.size() * static_cast<size_t>(most), std::nanf(""));
      e.words.resize(e.map.weights.size());
      e.notes.resize(e.map.weights.size());
    }
    const size_t cell =
        (e.map.rows.size() - 1) * static_cast<size_t>(most) + static_cast<size_t>(h.head);
    e.map.weights[cell] = static_cast<float>(h.lost);
    e.words[cell] = h.does;
    e.notes[cell] = fmt::format("{}, head {}: {:+.4f} nats{}{}", title_of(h.layer), h.head + 1,
                                h.lost, *h.does == 0 ? "" : ", ", h.does);
  }
  e.table = ranked(heads);
  e.note =
      "duplicate* and induction* are measured on random tokens that come twice, the rest on the "
      "text";
  return e;
}

std::vector<Explanation> by_patching(const OfBlocks& a) {
  expect_blocks(a.in, "patching");
  if (a.how.beside == nullptr) {
    throw Error("explain",
                "patching takes rows of another text: name it by --beside \"another text\"");
  }
  std::optional<Contrast> contrast = a.contrast;
  const Followed f = followed(a.in, *a.how.beside, contrast, a.done);
  const Contrast& c = f.contrast;
  const std::string what = c.a == c.b
                               ? fmt::format("the log odds of {}", token_of(a.in, c.a))
                               : fmt::format("{} → {}", token_of(a.in, c.a), token_of(a.in, c.b));
  std::vector<Explanation> all;
  for (const Followed::Stack& s : f.stacks) {
    Explanation e{.by = By::patching, .of_outputs = false};
    e.map = {.title = fmt::format("Patching{}: how far {} follows a row of the other text",
                                  f.stacks.size() > 1 ? ", " + s.name : "", what),
             .rows = s.blocks,
             .columns = s.rows,
             .weights = s.follows,
             .scale = Scale::around_zero,
             .axes = {"block", "token"}};
    all.push_back(std::move(e));
  }
  all.back().note =
      fmt::format("0 is as the input ({:.2f} nats), 1 as the other text ({:.2f}), at output {}",
                  f.from, f.to, place_of(a.in, c.output) + 1);
  return all;
}

}  // namespace

std::vector<Explanation> explained_by_blocks(const OfBlocks& a, By by) {
  if (by == By::lens) return {by_lens(a)};
  if (by == By::heads) return {by_heads(a)};
  return by_patching(a);
}

}  // namespace fovea::tasks
