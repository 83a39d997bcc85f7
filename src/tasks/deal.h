#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "tasks/task.h"
#include "team/team.h"

// Work that several processes share, so that what comes of it is the same to the bit for any number
// of them: its parts are fixed.
namespace fovea::tasks {

// work(i) for each of the parts 0 … n − 1, by whichever process of done's team; take(i, result) in
// all processes, in the order of parts. Results are what JSON can hold. Throws train::Stopped in
// all where one was to stop.
template <class Work, class Take>
void deal(const ShareDone& done, size_t n, const Work& work, const Take& take) {
  using Result = std::invoke_result_t<Work, size_t>;
  const auto taken = [&](size_t i, Result result) {
    take(i, std::move(result));
    done(static_cast<double>(i + 1) / static_cast<double>(n));
  };
  if (done.team().size() == 1) {
    for (size_t i = 0; i < n; ++i) {
      if (done.stop() != nullptr && done.stop()->load()) throw train::Stopped{};
      taken(i, work(i));
    }
    return;
  }
  const bool whole = team::deal(done.team(), {.n = n,
                                              .work =
                                                  [&](size_t i) {
                                                    std::string bytes;  // texts are of any bytes
                                                    nlohmann::json::to_cbor(work(i), bytes);
                                                    return bytes;
                                                  },
                                              .take =
                                                  [&](size_t i, const std::string& bytes) {
                                                    const auto j = nlohmann::json::from_cbor(bytes);
                                                    taken(i, j.template get<Result>());
                                                  },
                                              .stop = done.stop()});
  if (!whole) throw train::Stopped{};
}

// A prediction travels without its pictures.
void to_json(nlohmann::json&, const Prediction&);
void from_json(const nlohmann::json&, Prediction&);

// Before work is shared: that the processes are of one version, compute alike, and are asked alike.
void expect_same_program(team::Team&, std::map<std::string, std::string> asked);
// The same of a run that they opened and of what is judged by it.
void expect_same_run(team::Team&, const Run&, const Judged&, Settings& asked);

}  // namespace fovea::tasks
