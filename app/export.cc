#include <fmt/format.h>

#include <filesystem>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/label.h"
#include "tasks/given_back.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "text/messages.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string run, folder;
  bool no_tokenizer = false;
};

// A folder that is not there, or is empty, and in no run.
void check_place(const ExportOptions& o) {
  check_output({"export", o.folder}, {.files = {}, .runs = {o.run}});
  std::error_code error;
  const bool there = fs::exists(fs::symlink_status(o.folder, error));
  if (there && !(fs::is_directory(fs::symlink_status(o.folder)) && fs::is_empty(o.folder, error))) {
    throw Error("export", o.folder + " is there already: name a folder that is not, or is empty");
  }
  fs::path above = fs::absolute(o.folder).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();
  if (tasks::RunFolder(above.parent_path()).holds_run()) {
    throw Error("export", fmt::format("{} would lie in the run {}: name another folder", o.folder,
                                      above.parent_path().string()));
  }
}

int64_t bytes_of(const Tensors& all) {
  int64_t bytes = 0;
  for (const auto& [name, t] : all) bytes += t.numel() * static_cast<int64_t>(sizeof(float));
  return bytes;
}

void run(const ExportOptions& o) {
  const tasks::RunFolder folder(o.run);
  const tasks::Task& task = folder.task();
  check_place(o);
  tasks::GivenBack g = task.open(folder)->given_back();
  if (!g.no_tokenizer.empty() && !o.no_tokenizer) {
    throw Error("export", g.no_tokenizer + "; --no-tokenizer gives the model alone");
  }
  if (o.no_tokenizer) {
    std::erase_if(g.made, [](const auto& m) { return m.name.starts_with("tokenizer"); });
    std::erase_if(g.files,
                  [](const fs::path& f) { return f.filename() != "generation_config.json"; });
  }
  tasks::write_folder(g, o.folder);
  const std::string place = report::for_terminal(text::shell_quoted(o.folder));
  print_out("{}: {} tensors, {:.1f} MB in float32\n\nModel   {}\nTry     fovea info {}\n", g.title,
            g.tensors.size(), static_cast<double>(bytes_of(g.tensors)) / 1e6, place, place);
}

}  // namespace

void add_export(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "export", "Give a model back: a folder that transformers opens, and fovea");
  auto o = std::make_shared<ExportOptions>();
  verb->add_option("RUN", o->run, "A run folder, or a model's")->required()->check(not_empty);
  verb->add_option("DIR", o->folder, "The folder to make")->required()->check(not_empty);
  verb->add_flag("--no-tokenizer", o->no_tokenizer, "The model alone");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
