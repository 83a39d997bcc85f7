#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "app/crowding.h"
#include "app/options.h"
#include "app/print.h"
#include "app/stop_on_signal.h"
#include "app/verbs.h"
#include "checkpoints/kept.h"
#include "core/threads.h"
#include "fovea/device.h"
#include "fovea/error.h"
#include "report/label.h"
#include "tasks/task.h"
#include "team/launched.h"

namespace fovea::app {

bool verbose() {
  const char* value = std::getenv("FOVEA_VERBOSE");
  return value != nullptr && *value != '\0' && std::string(value) != "0";
}

namespace {

enum Exit { kOk = 0, kUnexpected = 1, kBadInput = 2, kInterrupted = 3 };

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 unexpected (a fault of ours, or output that cannot be printed);\n"
    "2 bad input or usage, explained in one line on stderr, no output file left behind;\n"
    "3 stopped by a signal, with everything saved.\n"
    "With FOVEA_VERBOSE=1 `fovea attend` says which plan ran; FOVEA_PLAN, FOVEA_ISA and\n"
    "FOVEA_THREADS force a choice.";

// For the program's own help; verbs have theirs.
std::string help_of_program() {
  std::string text = "Tasks, for fovea train:\n";
  for (const tasks::Task* task : tasks::task_table()) {
    text += fmt::format("  {:<27} {}\n", task->name, task->about);
  }
  return text + '\n' + kFooter;
}

// --device, for every verb that computes.
void add_device(CLI::App& program) {
  const auto all = [](CLI::App*) { return true; };
  for (CLI::App* verb : program.get_subcommands(all)) {
    if (!verb->get_subcommands(all).empty()) {
      add_device(*verb);
      continue;
    }
    constexpr std::string_view kNotComputing[] = {"info", "report", "tokens", "export"};
    if (std::ranges::find(kNotComputing, verb->get_name()) != std::end(kNotComputing)) continue;
    verb->add_option_function<std::string>(
            "--device", [](const std::string& name) { set_default_device(device(name)); },
            "Where it is computed: cpu, cuda (an NVIDIA GPU), or auto, the GPU where there is one")
        ->type_name("NAME");
  }
}

// --weights, for every verb that opens a model; where predict writes a file by it, both.
void add_kept(CLI::App& program) {
  for (const char* name : {"eval", "predict", "rank", "serve", "explain", "faithful", "info"}) {
    CLI::App* verb = program.get_subcommand(name);
    if (verb->get_option_no_throw("--weights") != nullptr) continue;
    verb->add_option_function<std::string>(
            "--weights",
            [](const std::string& kept) {
              checkpoints::set_default_kept(checkpoints::kept_as(kept));
            },
            kKeptHelp)
        ->type_name("NAME");
  }
}

// Whatever is inside a message, it takes one line and steers no terminal.
int complain(const CLI::App& program, Exit code, const std::string& said) {
  std::string message = said;
  for (char& c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = ' ';
  }
  std::string name = program.get_name();
  for (const CLI::App* verb : program.get_subcommands()) name += ' ' + verb->get_name();
  const int rank = team::launched_rank();
  print_note("{}: {}{}\n", name, report::visible(message),
             rank > 0 ? fmt::format(" (rank {})", rank) : "");
  return code;
}

// A launcher ends all processes when the first of them ends with an error, and may lose what
// another has just written. So the process that prints the message waits a little before it ends,
// and those that print nothing wait longer.
int end_later(int code, timespec pause) {
  if (!team::launcher_of_several().empty()) ::nanosleep(&pause, nullptr);
  return code;
}
constexpr timespec kSilent{1, 0}, kSpoken{0, 300'000'000};

// An error that all processes may find is printed by one: they join as a team to agree on which.
// Where they cannot join, the others give the first one time to print it and end, at which many
// launchers end them, too.
int complain_once(const CLI::App& program, Exit code, const std::string& message) {
  if (!team::launcher_of_several().empty() && !team::has_tried_to_join()) {
    try {
      team::together(team::launched(), [&] { throw Error("fovea", message); });
    } catch (const team::Elsewhere& failed) {
      return end_later(failed.exit_code, kSilent);
    } catch (const Error&) {  // this process says it
    }
  }
  const bool agreed = team::has_joined() && !team::others_work();
  const timespec starting{5, 0}, working{0, 300'000'000};
  if (team::launched_rank() > 0 && !agreed) {
    ::nanosleep(team::has_joined() ? &working : &starting, nullptr);
  }
  return end_later(complain(program, code, message), kSpoken);
}

// All verbs but those that share their work among processes.
void keep_to_one_process(CLI::App& program) {
  static constexpr std::string_view kSharing[] = {"train", "eval", "predict", "faithful",
                                                  "reproduce"};
  for (CLI::App* verb : program.get_subcommands([](CLI::App*) { return true; })) {
    const std::string name = verb->get_name();
    if (std::ranges::find(kSharing, name) != std::end(kSharing)) continue;
    verb->preparse_callback([name](size_t) {
      const std::string launcher = team::launcher_of_several();
      if (launcher.empty()) return;
      throw CLI::ValidationError(
          fmt::format("{} started several processes, and each would do all of `{}`; {} share their "
                      "work",
                      launcher, name, fmt::join(kSharing, ", ")));
    });
  }
}

std::string cannot_print(const CannotPrint& lost) {
  return "cannot write to standard output: " + std::generic_category().message(lost.error);
}

// Help or the version.
int print_asked(const CLI::App& program, const CLI::ParseError& asked) try {
  std::ostringstream text;
  program.exit(asked, text, text);
  print_text(text.str());
  flush_printed();
  return kOk;
} catch (const CannotPrint& lost) {
  return complain(program, kUnexpected, cannot_print(lost));
}

int run(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
    if (program.get_subcommands().empty()) print_text(program.help());
    flush_printed();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return complain_once(program, kBadInput, std::string(error.what()) + " (--help explains)");
    }
    return print_asked(program, error);
  } catch (const CannotPrint& lost) {
    return complain(program, kUnexpected, cannot_print(lost));
  } catch (const Error& error) {
    return complain_once(program, kBadInput, std::string(error.message()));
  } catch (const Interrupted& stopped) {
    if (team::launched_rank() > 0) return kInterrupted;
    return complain(program, kInterrupted, stopped.how_to_go_on);
  } catch (const team::Elsewhere& failed) {
    return end_later(failed.exit_code, kSilent);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(program, kBadInput,
                    fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::bad_alloc&) {
    return complain(program, kUnexpected, "out of memory");
  } catch (const std::exception& error) {
    return complain(program, kUnexpected, std::string("unexpected: ") + error.what());
  }
  return kOk;
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_printing();
  set_executor(considerate(own_executor()));
  CLI::App program("Attention, all of it: fused, differentiable, from the command line.", "fovea");
  const Arguments typed(argv + 1, argv + argc);
  program.footer(kFooter);  // verbs start with it
  program.set_version_flag("--version", version());
  program.require_subcommand(0, 1);
  add_train(program);
  add_eval(program, typed);
  add_predict(program, typed);
  add_report(program);
  add_reproduce(program);
  add_rank(program);
  add_serve(program);
  add_explain(program);
  add_faithful(program);
  add_attend(program);
  add_tokens(program);
  add_export(program);
  add_demo(program);
  add_info(program);
  add_device(program);
  add_kept(program);
  keep_to_one_process(program);
  program.footer(help_of_program());
  const int code = run(program, argc, argv);
  team::leave(code);
  return code;
}

}  // namespace fovea::app

int main(int argc, char** argv) { return fovea::app::run_program(argc, argv); }
