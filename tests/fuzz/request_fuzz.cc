// Any bytes are the JSON of a request or throw fovea::Error, and what is JSON but no such request
// throws that or the parser's own exception: for what can be drawn, asked about and set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "fovea/error.h"
#include "io/json.h"
#include "tasks/faithful.h"

namespace {

using namespace fovea;
using namespace fovea::explorer;

template <class F>
void expect_clear(const F& f) {
  try {
    f();
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Json asked;
  try {
    asked = parse_json(bytes, "the request", {.bytes = 1 << 16});
  } catch (const Error&) {
    return 0;
  }
  if (!asked.is_object()) return 0;
  for (const char* format : {"json", "csv", "svg"}) {
    expect_clear([&] { draw(asked, format); });
  }
  for (const tasks::Task* task : tasks::task_table()) {
    expect_clear([&] { asked_about(*task, asked); });
    expect_clear([&] { take_settings(asked.at("settings"), *task->predict_settings()); });
  }
  expect_clear([&] {
    tasks::FaithfulSettings settings;
    take_settings(asked, settings);
  });
  return 0;
}
