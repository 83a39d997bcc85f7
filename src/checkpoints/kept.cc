#include "checkpoints/kept.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <vector>

#include "fovea/error.h"
#include "kernels/table.h"

namespace fovea::checkpoints {
namespace {

constexpr std::array<KeptAs, 4> kAll = {KeptAs::stored, KeptAs::float32, KeptAs::bf16,
                                        KeptAs::int8};
std::atomic<KeptAs> default_one{KeptAs::stored};

}  // namespace

const char* name_of(KeptAs k) {
  static constexpr const char* kNames[] = {"stored", "float32", "bf16", "int8"};
  return kNames[static_cast<int>(k)];
}

std::span<const KeptAs> all_kept() { return kAll; }

KeptAs kept_as(const std::string& name) {
  std::vector<std::string> names;
  for (const KeptAs k : kAll) {
    if (name == name_of(k)) return k;
    names.emplace_back(name_of(k));
  }
  throw Error("open",
              fmt::format("weights are kept as {}, found \"{}\"", fmt::join(names, ", "), name));
}

KeptAs default_kept() { return default_one; }
void set_default_kept(KeptAs k) { default_one = k; }

KeptAs kept_on(Device device, KeptAs k) {
  if (k == KeptAs::float32) return k;
  const kernels::Kernels& table = kernels::on(device);
  const auto takes = [&](kernels::Number n) { return table.takes != nullptr && table.takes(n); };
  using kernels::Number;
  if (k == KeptAs::stored) {
    return takes(Number::bf16) && takes(Number::f16) ? k : KeptAs::float32;
  }
  if (takes(k == KeptAs::bf16 ? Number::bf16 : Number::i8)) return k;
  throw Error("open", fmt::format("{} does not compute with weights in {}; take float32",
                                  fovea::name_of(device), name_of(k)));
}

DType type_of(KeptAs k, DType stored) {
  switch (k) {
    case KeptAs::stored:
      break;
    case KeptAs::float32:
      return DType::f32;
    case KeptAs::bf16:
      return DType::bf16;
    case KeptAs::int8:
      return DType::i8;
  }
  return stored;
}

}  // namespace fovea::checkpoints
