#include <fmt/format.h>

#include <cstdlib>

#include "app/options.h"
#include "app/print.h"
#include "app/stop_on_signal.h"
#include "app/verbs.h"
#include "explorer/explorer.h"

namespace fovea::app {
namespace {

void run(const explorer::ExplorerSettings& settings) {
  const StopOnSignal stop;
  explorer::Explorer explorer(settings);
  print_out("{}\nCtrl-C ends it.\n", explorer.address());
  flush_printed();
  explorer.run(*stop.flag());
  if (!explorer.finish()) std::_Exit(0);
}

}  // namespace

void add_serve(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "serve",
      "Runs in the browser: type, and see what a model makes of it and where it looks.\n"
      "  fovea serve                    the runs under runs/; where there are none, train one "
      "there\n"
      "  fovea serve RUN RUN            these, side by side\n"
      "  fovea serve --port 0           at any port that is free\n"
      "It answers to this machine alone. --host 0.0.0.0 --token SECRET lets others in.");
  auto o = std::make_shared<explorer::ExplorerSettings>();
  verb->add_option("RUN", o->runs, "Run folders, or folders that hold some (default: runs)");
  verb->add_option("--port", o->port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  verb->add_option("--host", o->host, "The address to listen at")
      ->check(not_empty)
      ->capture_default_str();
  verb->add_option("--token", o->token, "A secret, asked of everybody who is not on this machine")
      ->check(not_empty);
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
