#include "tasks/faithful.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/shared.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/label.h"
#include "report/table_text.h"
#include "tasks/run_folder.h"

namespace fovea::app {
namespace {

struct FaithfulOptions {
  std::string run, data, page;
  std::vector<std::string> beside;
  tasks::Given given;
  bool json = false;
};

void check_page(const FaithfulOptions& o) {
  if (o.page.empty()) return;
  if (!o.page.ends_with(".html")) {
    throw Error("faithful", fmt::format("--page takes a FILE.html, found {}", o.page));
  }
  Reads reads{.files = {o.data}, .runs = o.beside};
  reads.runs.push_back(o.run);
  check_output({"faithful", o.page}, reads);
}

struct Opened {
  std::unique_ptr<const tasks::Run> run;
  std::vector<std::unique_ptr<const tasks::Run>> others;
  std::vector<const tasks::Run*> beside;
};

Opened opened_by(const FaithfulOptions& o) {
  const tasks::RunFolder folder(o.run);
  Opened opened{.run = folder.task().open(folder)};
  for (const std::string& other : o.beside) {
    const tasks::RunFolder there(other);
    if (&there.task() != &folder.task()) {
      throw Error("faithful", fmt::format("{} is of {}, and {} of {}", other, there.task().name,
                                          o.run, folder.task().name));
    }
    opened.others.push_back(there.task().open(there));
    opened.beside.push_back(opened.others.back().get());
  }
  return opened;
}

void run(const FaithfulOptions& o) {
  team::Team& team = team::launched();
  tasks::FaithfulSettings settings;
  Opened opened;
  team::together(team, [&] {
    check_page(o);
    tasks::from_options(o.given, settings);
    opened = opened_by(o);
  });
  const tasks::Judged what{.file = o.data};
  tasks::expect_same_run(team, *opened.run, what, settings);
  for (const tasks::Run* other : opened.beside)
    tasks::expect_same_run(team, *other, what, settings);
  ProgressLine line;
  say_changed_data(team, line, *opened.run, what);
  const tasks::FaithfulFound found = tasks::measure_faithful(
      *opened.run, what, opened.beside, settings, showing(team, line, "measuring"));
  if (!team.is_first()) return;
  const std::string name = tasks::RunFolder(o.run).name();
  if (!o.page.empty()) report::write_page(o.page, tasks::page_of(name, found));
  if (o.json) {
    print_out("{}\n", tasks::to_json(found).dump());
    return;
  }
  print_out("{}: {} outputs of {} inputs\n\n{}\n", report::visible(name), found.each.size(),
            found.inputs, report::to_text(tasks::table_of(found)));
  const report::Table implicit = tasks::implicit_of(found);
  if (!implicit.rows.empty()) {
    print_out("The weights here, the Jacobian there: Kendall τ\n{}\n", report::to_text(implicit));
  }
  const report::Table pointing = tasks::table_of(found.pointing);
  if (!pointing.rows.empty()) {
    print_out("Words that name a thing: is the peak in its box?\n{}\n", report::to_text(pointing));
  }
  print_out("{}\n", tasks::verdict(found));
}

}  // namespace

void add_faithful(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "faithful",
      "Whether a run's attention explains what it does: whether it agrees with gradients and with\n"
      "leaving inputs out, and whether other weights would give the same outputs.\n"
      "  fovea faithful RUN                       on what the run held out\n"
      "  fovea faithful RUN reviews.tsv --page faithful.html\n"
      "  fovea faithful runs/a-1 --beside runs/a-2 runs/a-3     and other seeds' weights\n"
      "  fovea faithful runs/a-1 --beside runs/fixed-1          a Jacobian without attention");
  auto o = std::make_shared<FaithfulOptions>();
  verb->add_option("RUN", o->run, "The run folder")->required()->check(not_empty);
  verb->add_option("DATA", o->data, "Data as the run's task takes them [what it held out]")
      ->check(not_empty);
  verb->add_option("--beside", o->beside, "Runs of the same data: other seeds, or no attention")
      ->check(not_empty);
  verb->add_option("--page", o->page, "Write a page with plots: FILE.html")->check(not_empty);
  verb->add_flag("--json", o->json, "For programs to read");
  tasks::FaithfulSettings settings;
  add_fields(*verb, o->given, settings);
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
