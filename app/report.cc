#include <fmt/format.h>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "report/label.h"
#include "report/table_text.h"
#include "tasks/page.h"

namespace fovea::app {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
};

void run(const ReportOptions& o) {
  const std::vector<tasks::RunFolder> folders(o.runs.begin(), o.runs.end());
  const std::filesystem::path own = folders[0] / tasks::kReportPage;
  const bool alone = folders.size() == 1;
  if (!o.out.empty()) {
    check_output({"report", o.out, alone ? own : ""}, {.files = {}, .runs = o.runs});
  }
  if (alone) {
    const std::filesystem::path page = o.out.empty() ? own : std::filesystem::path(o.out);
    ProgressLine line;
    const auto say = [&](const std::string& text) { line.say(text); };
    report::write_page(page, tasks::page_of(folders[0], {.say = say}));
    print_out("{}\n", report::for_terminal(page.string()));
    return;
  }
  const report::Page page = tasks::compare_page(folders);
  print_out("{}", report::tables_as_text(page));
  if (o.out.empty()) return;
  report::write_page(o.out, page);
  print_out("{}\n", report::for_terminal(o.out));
}

}  // namespace

void add_report(CLI::App& program) {
  CLI::App* verb =
      program.add_subcommand("report",
                             "Write a run's report.html anew, or compare several runs.\n"
                             "  fovea report runs/demo\n"
                             "  fovea report runs/none runs/soft runs/hard --out compared.html");
  auto o = std::make_shared<ReportOptions>();
  verb->add_option("RUN", o->runs, "The run folder; several are compared in a table")
      ->required()
      ->check(not_empty);
  verb->add_option("--out", o->out, "The page [RUN/report.html; none when comparing]")
      ->check(not_empty);
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
