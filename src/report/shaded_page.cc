#include <algorithm>
#include <cmath>

#include "report/label.h"
#include "report/page.h"

// Texts on a page: a bar and a figure for each line, words that stand out by their ground.
namespace fovea::report {
namespace {

// No space before a mark, as it is usual to write.
bool hugs(const std::string& word) {
  static constexpr std::string_view kMarks = ".,!?;:)]}%";
  return word.size() == 1 && kMarks.find(word[0]) != kMarks.npos;
}

void add_line(Html& html, const ShadedText& text, const ShadedText::Line& line, float full,
              float heaviest) {
  html.put(R"(<li><span class="bar"><i style="width:{:.1f}%"></i>{:.2f}</span><span dir="auto">)",
           100 * std::max(line.weight, 0.0f) / heaviest, line.weight);
  for (size_t w = 0; w < line.words.size(); ++w) {
    if (w > 0 && !hugs(line.words[w])) html.put(" ");
    const float share = weight_in_text(line, w) / full;
    const char* marked = text.scale == Scale::around_zero && share > 0 ? R"( class="above")" : "";
    const std::string word = escape(visible(line.words[w]));
    if (!(std::abs(share) >= 0.03f)) {
      html.put("{}", word);
    } else {
      html.put(
          R"(<mark{} style="--w:{:.2f}" title="{:.3f} of the sentence, {:.3f} in all">{}</mark>)",
          marked, std::min(std::abs(share), 1.0f), line.weights[w], weight_in_text(line, w), word);
    }
  }
  html.put("</span></li>\n");
}

}  // namespace

void add(Html& html, const ShadedTexts& texts) {
  for (const ShadedText& text : texts.items) {
    check(text);
    const float full = full_weight(text);
    float heaviest = 1e-9f;
    for (const ShadedText::Line& line : text.lines) heaviest = std::max(heaviest, line.weight);
    html.put(R"(<figure class="shaded"><figcaption dir="auto">{}</figcaption><ol>)",
             escape(text.title));
    for (const ShadedText::Line& line : text.lines) add_line(html, text, line, full, heaviest);
    html.put("</ol></figure>");
  }
}

}  // namespace fovea::report
