#include "report/label.h"
#include "report/page.h"

// Images on a page, each a sheet that shrinks with it.
namespace fovea::report {

void add(Html& html, const SeenImages& images) {
  for (const SeenImages::Item& item : images.items) {
    SeenImage seen = item.seen;
    seen.title.clear();
    const SeenDrawing d = drawing_of({seen});
    html.put(R"(<figure class="seen"><figcaption dir="auto">{}</figcaption>)"
             R"(<div class="scroll" style="max-width:{:.0f}px" role="img" aria-label="{}">{}</div>)"
             "</figure>\n",
             escape(item.caption), d.width, escape(item.caption), d.svg);
  }
}

}  // namespace fovea::report
