#pragma once

#include "app/progress.h"
#include "tasks/deal.h"
#include "team/launched.h"

// What verbs have in common whose work several processes share: the first one tells of it.
namespace fovea::app {

inline tasks::ShareDone showing(team::Team& team, ProgressLine& line, const char* what) {
  if (!team.is_first()) return {team, nullptr};
  return {team, [&line, what](double done) { line.show(what, done); }};
}

inline void say_changed_data(team::Team& team, ProgressLine& line, const tasks::Run& run,
                             const tasks::Judged& what) {
  if (!team.is_first() || !what.file.empty()) return;
  const std::string changed = tasks::changed_data(run);
  if (!changed.empty()) line.say(changed);
}

}  // namespace fovea::app
