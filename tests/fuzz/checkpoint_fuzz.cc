// Any index of shards names files of its folder or is refused; any config is planned for or
// refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/architecture.h"
#include "checkpoints/folder.h"
#include "fovea/error.h"
#include "io/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const std::string& shard : fovea::checkpoints::shards_in(text, "index")) {
      if (shard.find('/') != std::string::npos || shard == "..") std::abort();
    }
  } catch (const fovea::Error&) {
  }
  try {
    const fovea::checkpoints::Config config(fovea::parse_json(text, "config"), "config");
    const fovea::checkpoints::Architecture& a = fovea::checkpoints::architecture(config);
    const std::vector<std::filesystem::path> none;
    a.plan(config, fovea::checkpoints::StoredTensors(none, a.prefix));
  } catch (const fovea::Error&) {
  }
  return 0;
}
