#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/inside_blocks.h"

// What blocks would say already (nostalgebraist 2020: the logit lens).
namespace fovea::tasks {
namespace {

std::string name_of_block(const nn::Block& b) {
  return b.self.name.substr(0, b.self.name.rfind('.'));  // "decoder.0.self"
}

Lens::Cell cell_of(std::span<const float> log_p, int64_t top, int64_t answer) {
  const size_t n = std::min(log_p.size(), static_cast<size_t>(std::max<int64_t>(top, 1)));
  std::vector<int64_t> order(log_p.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto at = [&](int64_t id) { return log_p[static_cast<size_t>(id)]; };
  const auto likelier = [&](int64_t a, int64_t b) {
    return at(a) != at(b) ? at(a) > at(b) : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end(),
                    likelier);
  order.resize(n);
  Lens::Cell cell{.top = order, .p = {}, .p_answer = std::exp(static_cast<double>(at(answer)))};
  for (const int64_t id : order) cell.p.push_back(std::exp(static_cast<double>(at(id))));
  for (size_t id = 0; id < log_p.size(); ++id) {
    cell.rank += likelier(static_cast<int64_t>(id), answer) ? 1 : 0;
  }
  return cell;
}

}  // namespace

void expect_blocks(const Inside& in, const char* way) {
  if (in.opens == Inside::Opens::blocks) return;
  throw Error("explain",
              in.opens == Inside::Opens::heads
                  ? fmt::format("{} takes the rows of blocks for what is said of them, and here "
                                "the class is said of a look at all of them",
                                way)
                  : fmt::format("{} goes through the blocks of a Transformer, and this model has "
                                "none",
                                way));
}

std::string stack_of(const std::string& block) { return block.substr(0, block.rfind('.')); }

std::vector<BlockRows> rows_of_blocks(const Inside& in, const Tensor& x) {
  const NoGrad off;
  std::vector<BlockRows> all;
  in.states(x.unsqueeze(0),
            {.block = [&](const nn::Block& b, const Tensor& rows, const nn::BlockPass& pass) {
              all.push_back({name_of_block(b), rows, b(rows, pass)});
              return all.back().after;
            }});
  return all;
}

Lens lens_of(const Inside& in, const LensAsked& asked, const ShareDone& done) {
  expect_blocks(in, "lens");
  const NoGrad off;
  const std::vector<BlockRows> rows = rows_of_blocks(in, in.x);
  const std::string last = stack_of(rows.back().name);
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [&](const BlockRows& b) { return stack_of(b.name) == last; });
  // The states that are said of given rows: they come out of the first block, and pass the others.
  const auto states_of_rows = [&](const Tensor& given) {
    return in.states(in.x.unsqueeze(0),
                     {.block = [&](const nn::Block& b, const Tensor& x, const nn::BlockPass&) {
                       return stack_of(name_of_block(b)) == last ? given : x;
                     }});
  };
  Lens lens{.blocks = {"embedding"}, .outputs = asked.outputs};
  for (auto b = first; b != rows.end(); ++b) {
    lens.blocks.push_back(fmt::format("block {}", b - first + 1));
  }
  each_log_p(in, states_of_rows(rows.back().after), asked.outputs,
             [&](size_t, std::span<const float> log_p) {
               lens.answers.push_back(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
             });
  for (size_t b = 0; b < lens.blocks.size(); ++b) {
    const Tensor& given = b == 0 ? first->before : (first + static_cast<ptrdiff_t>(b) - 1)->after;
    each_log_p(in, states_of_rows(given), asked.outputs,
               [&](size_t i, std::span<const float> log_p) {
                 lens.cells.push_back(cell_of(log_p, asked.top, lens.answers[i]));
               });
    if (done) done(static_cast<double>(b + 1) / static_cast<double>(lens.blocks.size()));
  }
  return lens;
}

}  // namespace fovea::tasks
