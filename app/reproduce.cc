#include "tasks/reproduce.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/options.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/train.h"
#include "app/verbs.h"
#include "report/label.h"
#include "report/table_text.h"
#include "team/launched.h"
#include "text/messages.h"

namespace fovea::app {
namespace {

struct ReproduceOptions {
  std::string paper, out;
  tasks::ReproduceOptions how;
};

std::string command_of(const ReproduceOptions& o, const std::string& out) {
  std::string line = fmt::format("fovea reproduce {} --out {}", o.paper, text::shell_quoted(out));
  if (!o.how.data.empty()) line += " --data " + text::shell_quoted(o.how.data);
  if (o.how.seeds > 0) line += fmt::format(" --seeds {}", o.how.seeds);
  if (o.how.effort != 1) line += fmt::format(" --effort {}", o.how.effort);
  return line;
}

void run(const ReproduceOptions& o) {
  const tasks::Paper& paper = tasks::paper(o.paper);
  const std::filesystem::path out = o.out.empty() ? "runs/" + paper.name : o.out;
  team::Team& team = team::launched();
  const Watcher watcher(team);
  const tasks::Reproduced r = tasks::reproduce(paper, out, o.how, watcher.watching());
  if (r.interrupted) {
    team.set_over();
    throw Interrupted{paper.measure
                          ? "stopped; nothing was written"
                          : "stopped and saved; go on with: " + command_of(o, out.string())};
  }
  if (!team.is_first()) return;
  double seconds = 0;
  for (const tasks::Outcome& outcome : r.outcomes) seconds += outcome.seconds;
  print_out("{}\n{}\n\n{}{} models {} in {}\nReport  {}\n", paper.title, paper.about,
            report::tables_as_text(r.page), r.outcomes.size(),
            paper.measure ? "measured" : "trained", duration(seconds),
            report::for_terminal((out / "report.html").string()));
}

}  // namespace

void add_reproduce(CLI::App& program) {
  std::string about = "A paper's experiment at a laptop's size, beside its figures:";
  for (const tasks::Paper* p : tasks::paper_table()) {
    about += fmt::format("\n  {:<14} {}", p->name, p->about);
  }
  CLI::App* verb = program.add_subcommand("reproduce", about);
  auto o = std::make_shared<ReproduceOptions>();
  verb->add_option("PAPER", o->paper, "Which")->required();
  verb->add_option("--data", o->how.data, "Your own data, as its task takes them [built-in]")
      ->check(not_empty);
  verb->add_option("--out", o->out, "Folder of the runs and the report [runs/PAPER]")
      ->check(not_empty);
  verb->add_option("--seeds", o->how.seeds, "Seeds for each row [the experiment's own]")
      ->check(CLI::Range(1, 100));
  verb->add_option("--effort", o->how.effort, "Multiplies the training of every row [1]");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
