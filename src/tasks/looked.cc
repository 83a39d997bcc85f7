#include "tasks/looked.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFile = "looks.json";
constexpr size_t kMostNumbers = size_t{1} << 14;  // of a look; larger ones are not kept

// A list for each kind, those of maps and texts even where there are none of them.
Json json_of(const LookedAt& at) {
  Json json = {
      {"step", at.step}, {"output", at.output}, {"maps", Json::array()}, {"texts", Json::array()}};
  for (const report::Picture& p : at.pictures) {
    json[p.kind().plural].push_back(p.kind().pack(p, report::Numbers::rounded));
  }
  return json;
}

LookedAt look_from(const Json& j) {
  LookedAt at{.step = whole_number(j.at("step")), .output = j.at("output").get<std::string>()};
  for (const report::PictureKind* kind : report::picture_table()) {
    for (const Json& one : j.value(kind->plural, Json::array())) {
      at.pictures.push_back(kind->unpack(one));
    }
  }
  return at;
}

size_t numbers_in(const Json& j) {
  if (!j.is_structured()) return j.is_number() ? 1 : 0;
  size_t n = 0;
  for (const Json& part : j) n += numbers_in(part);
  return n;
}

bool is_small(const LookedAt& at) {
  size_t n = 0;
  for (const report::Picture& p : at.pictures) {
    n += numbers_in(p.kind().pack(p, report::Numbers::rounded));
  }
  return n <= kMostNumbers;
}

}  // namespace

LookHistory looks_of(const RunFolder& folder) {
  if (!std::filesystem::exists(folder / kFile)) return {};
  const Json json = read_json(folder / kFile);
  try {
    LookHistory looks{.input = json.at("input").get<std::string>(), .each = {}};
    for (const Json& j : json.at("looks")) looks.each.push_back(look_from(j));
    return looks;
  } catch (const Json::exception& e) {
    throw Error("run", (folder / kFile).string() + " is not a run's: " + e.what());
  }
}

void thin(std::vector<LookedAt>& each, size_t most) {
  while (each.size() > std::max<size_t>(most, 2)) {
    size_t least = 1;  // the one whose neighbours are nearest to each other
    const auto gap = [&](size_t i) { return each[i + 1].step - each[i - 1].step; };
    for (size_t i = 2; i + 1 < each.size(); ++i) {
      if (gap(i) < gap(least)) least = i;
    }
    each.erase(each.begin() + static_cast<ptrdiff_t>(least));
  }
}

LookKeeper::LookKeeper(const Task& task, const RunFolder& folder, const Run& run, bool goes_on)
    : folder_(folder), run_(run) {
  if (task.takes != Takes::text) return;
  if (goes_on) looks_ = looks_of(folder);
  if (!looks_.input.empty()) return;
  const std::vector<Example> some = run.examples(1);
  if (!some.empty()) looks_.input = text_of(some.front().input);
}

void LookKeeper::look() {
  latest_.reset();
  if (looks_.input.empty()) return;
  try {
    const std::optional<Inside> inside = run_.inside(Text{looks_.input});
    if (!inside || !inside->attention) return looks_.input.clear();
    LookedAt at{.output = inside->title,
                .pictures = pictures_of(*inside, explain(*inside, {.by = {By::attention}}))};
    if (is_small(at)) latest_ = std::move(at);
  } catch (const Error&) {  // there is nothing to see of such a model
    looks_.input.clear();
  }
}

void LookKeeper::keep(int64_t step) {
  if (!latest_) return;
  std::erase_if(looks_.each, [&](const LookedAt& at) { return at.step >= step; });
  latest_->step = step;
  looks_.each.push_back(std::move(*latest_));
  latest_.reset();
  thin(looks_.each, kMostLooks);
  Json list = Json::array();
  for (const LookedAt& at : looks_.each) list.push_back(json_of(at));
  write_json(folder_ / kFile, {{"input", looks_.input}, {"looks", list}});
}

}  // namespace fovea::tasks
