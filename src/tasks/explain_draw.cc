#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "report/shaded_text.h"
#include "report/word_map.h"
#include "tasks/explain.h"

namespace fovea::tasks {
namespace {

using report::Scale;

// A line weighs what its words do, all of them together 1.
report::ShadedText text_of(const Inside& in, const Explanation& e) {
  report::ShadedText text{.title = fmt::format("{}: {}", e.map.title, e.map.rows.front()),
                          .scale = e.map.scale};
  float whole = 0;
  for (const float w : e.map.weights) whole += std::isfinite(w) ? std::abs(w) : 0.0f;
  auto word = in.inputs.begin();
  auto weight = e.map.weights.begin();
  for (const size_t n : in.lines) {
    const auto words = static_cast<ptrdiff_t>(n);
    report::ShadedText::Line line{.words = {word, word + words},
                                  .weights = {weight, weight + words}};
    float own = 0;
    for (const float w : line.weights) own += std::isfinite(w) ? std::abs(w) : 0.0f;
    line.weight = whole > 0 ? own / whole : 0.0f;
    for (float& w : line.weights) w = own > 0 ? w / own : 0.0f;
    text.lines.push_back(std::move(line));
    word += words, weight += words;
  }
  return text;
}

// The finest grid of at most 64 rows and columns that the picture's own divides.
Tensor for_eyes(const Tensor& fine, const explain::Grid& grid) {  // [T,Y,X]
  constexpr int64_t kMost = 64;
  const int64_t side = std::min(fine.size(1) / grid.rows, fine.size(2) / grid.columns);
  for (int64_t parts = side; parts > 1; --parts) {
    const explain::Grid finer{grid.rows * parts, grid.columns * parts};
    if (fine.size(1) % finer.rows == 0 && fine.size(2) % finer.columns == 0 &&
        std::max(finer.rows, finer.columns) <= kMost) {
      return explain::summed(fine, finer);
    }
  }
  return explain::summed(fine, grid);
}

// w_d = the mean of A[i, i + d] over all rows of both.
std::vector<float> kernel_of(const std::vector<const Tensor*>& all, int64_t reach) {
  std::vector<float> kernel;
  for (int64_t d = -reach; d <= reach; ++d) {
    double total = 0, n = 0;
    for (const Tensor* a : all) {
      const std::vector<float> w = a->to_vector();
      const int64_t rows = a->size(0), columns = a->size(1);
      for (int64_t i = 0; i < rows; ++i) {
        if (i + d < 0 || i + d >= columns) continue;
        total += static_cast<double>(w[static_cast<size_t>(i * columns + i + d)]);
        n += 1;
      }
    }
    kernel.push_back(n == 0 ? 0.0f : static_cast<float>(total / n));
  }
  return kernel;
}

// What conv1d makes of each unit vector is a column of its matrix: [rows,columns].
Tensor matrix_of(const std::vector<float>& kernel, int64_t rows, int64_t columns) {
  const auto width = static_cast<int64_t>(kernel.size());
  const int64_t n = std::max(rows, columns);
  Tensor units = Tensor::zeros({columns, 1, n});
  for (int64_t j = 0; j < columns; ++j) units.select(0, j).select(0, 0).slice(0, j, j + 1).fill_(1);
  const Tensor y = conv1d(units, Tensor::from(kernel, {1, 1, width}), {}, {.pad = width / 2});
  return y.select(1, 0).slice(1, 0, rows).transpose(0, 1).contiguous();
}

report::SeenImage seen_of(const Inside& in, const Explanation& e) {
  report::SeenImage seen{.title = e.map.title,
                         .image = in.image,
                         .rows = in.grid.rows,
                         .columns = in.grid.columns,
                         .scale = e.map.scale};
  std::vector<float> weights = e.map.weights;
  if (e.fine) {
    const Tensor fine = for_eyes(e.fine, in.grid);
    weights = fine.to_vector();
    seen.rows = fine.size(1), seen.columns = fine.size(2);
  }
  const int64_t places = seen.rows * seen.columns;
  for (size_t row = 0; row < e.map.rows.size(); ++row) {
    const auto from = weights.begin() + static_cast<int64_t>(row) * places;
    report::SeenImage::Look& look =
        seen.looks.emplace_back(report::SeenImage::Look{e.map.rows[row], {from, from + places}});
    for (const Inside::Boxed& one : in.boxed) {
      if (row < e.outputs.size() && static_cast<size_t>(e.outputs[row]) == one.output) {
        look.boxes.push_back(one.box);
      }
    }
  }
  return seen;
}

}  // namespace

report::Picture picture_of(const Inside& in, const Explanation& e) {
  if (!e.words.empty()) {
    return report::WordMap{.title = e.map.title,
                           .rows = e.map.rows,
                           .columns = e.map.columns,
                           .words = e.words,
                           .notes = e.notes,
                           .weights = e.map.weights,
                           .scale = e.map.scale};
  }
  if (in.picture() && is_of_inputs(e.by)) return seen_of(in, e);
  if (!in.lines.empty() && e.of_outputs && e.map.rows.size() == 1) return text_of(in, e);
  return e.map;
}

std::vector<report::Picture> pictures_of(const Inside& in, const std::vector<Explanation>& all) {
  std::vector<report::Picture> pictures;
  for (const Explanation& e : all) pictures.push_back(picture_of(in, e));
  return pictures;
}

report::Page page_of(const std::string& title, const Inside& in,
                     const std::vector<Explanation>& all) {
  report::Page page{.title = title, .subtitle = in.title, .headline = {}, .sections = {}};
  report::Section maps{"What moved the output", {}};
  maps.blocks.push_back(report::Pictures{pictures_of(in, all)});
  report::Table how{{"way", "what it is"}, {}};
  for (const Explanation& e : all) {
    how.rows.push_back({title_of(e.by), about(e.by) + (e.note.empty() ? "" : " " + e.note)});
  }
  maps.blocks.push_back(std::move(how));
  for (const Explanation& e : all) {
    if (!e.table.rows.empty()) maps.blocks.push_back(e.table);
  }
  page.sections.push_back(std::move(maps));
  const report::Table sizes = agreement_of(all), values = agreement_of(all, TauOf::values);
  if (sizes.rows.empty()) return page;
  report::Section& agree = page.sections.emplace_back(report::Section{"Do they agree?", {}});
  agree.blocks.push_back(report::Text{
      "Kendall's τ compares the orders that two ways put the inputs in: 1 is the same order, 0 "
      "nothing in common, −1 the reverse. It is a mean over the outputs. The first table goes by "
      "the size of the values: which inputs matter."});
  agree.blocks.push_back(sizes);
  if (values.rows.empty()) return page;
  agree.blocks.push_back(report::Text{
      "The second goes by the values with their signs: which inputs speak for the output, and "
      "which against it."});
  agree.blocks.push_back(values);
  return page;
}

std::vector<report::Picture> fast_and_slow(const Inside& a, const Inside& b,
                                           const Explaining& how) {
  constexpr int64_t kReach = 3;
  if (a.picture()) {
    throw Error("explain",
                "weights are compared with a convolution along a sequence, and this "
                "input is a picture; --by attention shows them");
  }
  Explaining attention = how;
  attention.by = {By::attention};
  attention.output = {};
  std::vector<report::Heatmap> fast;
  std::vector<report::Picture> all;
  std::vector<Tensor> weights;
  for (const Inside* in : {&a, &b}) {
    fast.push_back(explain(*in, attention).front().map);
    const auto rows = static_cast<int64_t>(fast.back().rows.size());
    weights.push_back(Tensor::from(fast.back().weights,
                                   {rows, static_cast<int64_t>(fast.back().columns.size())}));
  }
  const std::vector<float> kernel = kernel_of({&weights[0], &weights[1]}, kReach);
  for (size_t i = 0; i < fast.size(); ++i) {
    report::Heatmap slow = fast[i];
    slow.weights = matrix_of(kernel, weights[i].size(0), weights[i].size(1)).to_vector();
    const size_t n = i + 1;
    slow.title = fmt::format("slow, input {}: a convolution, the same for every input", n);
    fast[i].title = fmt::format("fast, input {}: {}", n, fast[i].title);
    all.emplace_back(std::move(fast[i]));
    all.emplace_back(std::move(slow));
  }
  return all;
}

}  // namespace fovea::tasks
