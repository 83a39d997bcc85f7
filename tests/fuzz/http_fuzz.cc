// Any bytes are the head of a request, the beginning of one, or refused with a status; what is read
// is within its limits, whatever is cut off was not yet whole, and the guard has an answer to it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "explorer/guard.h"
#include "explorer/http.h"

namespace {

using namespace fovea::explorer;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const RequestHead& head, size_t size, const Limits& limits) {
  require(head.length <= size && head.body <= limits.body);
  require(head.request.path.starts_with('/') && head.request.path.size() <= limits.target);
  require(head.request.headers.size() <= limits.headers + 1 && head.request.body.empty());
  for (const auto& [name, value] : head.request.headers) {
    require(!name.empty() && value.find_first_of("\r\n") == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Limits limits{.target = 64, .headers = 8, .header_bytes = 256, .body = 1000};
  const RequestHead head = parse_head(bytes, limits);
  require(head.status == 0 || (head.status >= 400 && head.status < 600));
  if (head.status != 0 || head.length == 0) return 0;
  check(head, size, limits);
  for (size_t n = 0; n < head.length; ++n) {
    const RequestHead part = parse_head(bytes.substr(0, n), limits);
    require(part.status == 0 && part.length == 0);
  }
  for (const bool loopback : {true, false}) {
    const Admission admission{.port = 80, .token = "secret", .loopback = loopback};
    if (auto away = refuse(head.request, admission)) {
      require(away->status >= 300 && away->status < 500);
      require(!head_of(*away, false, false).empty());
    }
  }
  return 0;
}
