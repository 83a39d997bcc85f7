#include "io/atomic_file.h"
#include "report/report.h"

namespace fovea::report {

void write_page(const std::filesystem::path& path, const Page& page) {
  const std::string html = to_html(page);
  AtomicFile file(path);
  file.write(html.data(), html.size());
  file.commit();
}

}  // namespace fovea::report
