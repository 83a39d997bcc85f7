#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/shared.h"
#include "app/verbs.h"
#include "checkpoints/kept.h"
#include "fovea/error.h"
#include "fovea/io.h"
#include "report/label.h"
#include "report/picture.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "text/lines.h"

namespace fovea::app {
namespace {

struct PredictOptions {
  std::string run, file, weights, logits;
  std::vector<std::string> inputs;
  tasks::Given given;  // the task's own
  bool show = false, json = false;
};

// Lines as they come: those that one read brought are answered together, before the next is asked
// for, so that a program at the other end of a pipe gets its answer before it writes on.
class StandardInput {
 public:
  std::vector<std::string> next() {  // none at the end
    std::vector<std::string> some;
    std::string line;
    while ((some.empty() || lines_.has_line()) && lines_.next(line)) some.push_back(line);
    return some;
  }

 private:
  static size_t read(char* to, size_t most) {
    while (true) {
      const ssize_t n = ::read(STDIN_FILENO, to, most);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) throw std::runtime_error(std::generic_category().message(errno));
    }
  }
  text::LineReader lines_{"predict", "standard input", read};
};

bool from_standard_input(const PredictOptions& o) {
  return o.file == "-" || (o.file.empty() && o.inputs.empty());
}

// Texts all at once; pictures as many as are read into 64 MB, and no more than 64, so that a list
// of any length can be asked about.
std::vector<tasks::Predictions> predict_all(const tasks::Run& run, const tasks::Task& task,
                                            const std::vector<std::string>& typed,
                                            const tasks::Settings& settings,
                                            const tasks::Predicting& how) {
  constexpr size_t kPixels = size_t{1} << 24, kPictures = 64;
  std::vector<tasks::Predictions> all;
  tasks::Predicting part = how;
  std::vector<tasks::Input> some;
  part.done = [&](double done) {
    how.done((static_cast<double>(all.size()) + done * static_cast<double>(some.size())) /
             static_cast<double>(typed.size()));
  };
  size_t pixels = 0;
  for (size_t i = 0; i < typed.size(); ++i) {
    const tasks::Input& input =
        some.emplace_back(tasks::typed_input(task, typed[i], run.class_column(&settings)));
    if (const auto* p = std::get_if<tasks::GivenImage>(&input)) pixels += p->image.pixels.size();
    const bool full =
        task.takes == tasks::Takes::pictures && (pixels >= kPixels || some.size() == kPictures);
    if (!full && i + 1 < typed.size()) continue;
    for (tasks::Predictions& p : run.predict(some, settings, part)) all.push_back(std::move(p));
    some.clear();
    pixels = 0;
  }
  return all;
}

// What would keep the picture from being written is said before anything is predicted.
void check_picture(const PredictOptions& o, const tasks::Task& task, tasks::Settings& settings,
                   const std::vector<std::string>& inputs) {
  Reads reads{.files = tasks::files_named_in(settings), .runs = {o.run}};
  reads.files.push_back(o.file);
  if (task.takes == tasks::Takes::pictures) {
    for (const std::string& input : inputs) reads.files.push_back(file_named_by(input));
  }
  check_output({"predict", o.weights}, reads);
}

void print_json(const std::string& input, const tasks::Predictions& n_best) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const tasks::Prediction& p : n_best) {
    best.push_back({{"text", p.text}, {"score", p.score}, {"ended", p.ended}});
  }
  const nlohmann::ordered_json j = {{"input", input}, {"predictions", best}};
  print_out("{}\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// Scored: a score stands before each, not only before those of several.
void print(const PredictOptions& o, bool scored, const std::string& input,
           const tasks::Predictions& n_best) {
  if (o.json) return print_json(input, n_best);
  for (const tasks::Prediction& p : n_best) {
    if (scored || n_best.size() > 1) print_out("{:.4f}\t", p.score);
    print_out("{}\n", scored ? report::visible(p.text) : report::for_terminal(p.text));
  }
}

void draw(const tasks::Predictions& n_best) {
  for (const tasks::Prediction& p : n_best) {
    for (const report::Picture& picture : p.pictures) {
      print_out("\n{}\n", terminal_text(picture));
    }
  }
}

std::vector<report::Picture> pictures_of(const std::vector<tasks::Predictions>& all) {
  std::vector<report::Picture> found;
  for (const tasks::Predictions& n_best : all) {
    for (const tasks::Prediction& p : n_best) {
      found.insert(found.end(), p.pictures.begin(), p.pictures.end());
    }
  }
  return found;
}

// What the model says of one input, as a file.
void write_logits(const PredictOptions& o, const tasks::Task& task) {
  const std::vector<std::string> inputs = o.file.empty() ? o.inputs : text::read_lines(o.file);
  if (inputs.size() != 1) {
    throw Error("predict",
                fmt::format("--logits takes one input, found {}: quote it", inputs.size()));
  }
  if (!o.logits.ends_with(".safetensors")) {
    throw Error("predict", fmt::format("--logits takes a FILE.safetensors, found {}", o.logits));
  }
  check_output({"predict", o.logits}, {.files = {o.file}, .runs = {o.run}});
  const auto opened = task.open(tasks::RunFolder(o.run));
  const std::optional<Tensors> found =
      opened->logits(tasks::typed_input(task, inputs[0], opened->class_column(nullptr)));
  if (!found) throw Error("predict", fmt::format("--logits: {} has none to write", task.name));
  save_safetensors(o.logits, *found);
}

// Some of all inputs.
struct Part {
  std::vector<std::string> inputs;
  size_t first, all;
};

// Predicts and prints; gives the pictures, if they are asked for.
std::vector<report::Picture> answer(const PredictOptions& o, const tasks::Task& task,
                                    const tasks::Run& opened, tasks::Settings& settings,
                                    const Part& part) {
  const std::vector<std::string>& inputs = part.inputs;
  if (!o.weights.empty()) check_picture(o, task, settings, inputs);
  const bool looks = o.show || !o.weights.empty();
  ProgressLine progress;
  bool written = false;  // piece by piece
  tasks::Predicting how{.maps = looks ? tasks::Maps::keep : tasks::Maps::none};
  how.done = [&](double done) {
    if (part.all <= 1000) return;
    const double before = static_cast<double>(part.first);
    progress.show("predicting", (before + done * static_cast<double>(inputs.size())) /
                                    static_cast<double>(part.all));
  };
  if (!o.json) {
    how.piece = [&](std::string_view piece) {
      written = true;
      print_out("{}", report::for_terminal(piece));
      flush_printed();
    };
  }
  const auto all = predict_all(opened, task, inputs, settings, how);
  std::vector<report::Picture> pictures = pictures_of(all);
  if (looks && pictures.empty() && !all.empty()) {
    throw Error("predict", fmt::format("this model has no attention to show ({})",
                                       opened.config().attention()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!written) print(o, task.scored, inputs[i], all[i]);
    if (o.show && !o.json) draw(all[i]);
  }
  return pictures;
}

// ---- A file, by all processes -------------------------------------------------------------------

// The first prints what all of them found, in the order of the file.
void answer_by_team(team::Team& team, const PredictOptions& o, const tasks::Run& opened,
                    tasks::Settings& settings, const std::vector<Part>& parts) {
  const tasks::Task& task = tasks::RunFolder(o.run).task();
  ProgressLine progress;
  const bool shown = team.is_first() && !parts.empty() && parts.front().all > 1000;
  const tasks::ShareDone done =
      shown ? showing(team, progress, "predicting") : tasks::ShareDone(team, nullptr);
  const auto work = [&](size_t i) {
    return predict_all(opened, task, parts[i].inputs, settings, {.done = [](double) {}});
  };
  tasks::deal(done, parts.size(), work, [&](size_t i, const std::vector<tasks::Predictions>& all) {
    if (!team.is_first()) return;
    for (size_t k = 0; k < all.size(); ++k) print(o, task.scored, parts[i].inputs[k], all[k]);
    flush_printed();
  });
}

// The same for any number of processes.
std::vector<Part> parts_of(const std::vector<std::string>& lines) {
  constexpr size_t kLines = 256;
  std::vector<Part> parts;
  for (size_t at = 0; at < lines.size(); at += kLines) {
    const auto begin = lines.begin() + static_cast<int64_t>(at);
    const auto end = begin + static_cast<int64_t>(std::min(kLines, lines.size() - at));
    parts.push_back({{begin, end}, at, lines.size()});
  }
  return parts;
}

// All that can be wrong is found before anything is shared.
void expect_for_team(const team::Team& team, const PredictOptions& o) {
  if (team.size() == 1) return;
  if (o.file.empty() || o.file == "-" || o.show || !o.weights.empty() || !o.logits.empty()) {
    throw Error("predict",
                "several processes answer the lines of --file FILE; --show, --logits, "
                "--weights FILE and other inputs are for one");
  }
}

// A file that is written, or how weights are kept: files have endings, and these names have none.
void take_weights(PredictOptions& o, const std::string& typed) {
  std::vector<std::string> names;
  for (const checkpoints::KeptAs kept : checkpoints::all_kept()) {
    if (typed == name_of(kept)) return checkpoints::set_default_kept(kept);
    names.emplace_back(name_of(kept));
  }
  if (!std::filesystem::path(typed).has_extension()) {
    throw Error("predict", fmt::format("--weights takes a file that ends in .json, .csv, .svg or "
                                       ".png, or how weights are kept: {}; found {}",
                                       fmt::join(names, ", "), typed));
  }
  o.weights = typed;
}

void run_by_team(team::Team& team, const PredictOptions& o) {
  std::unique_ptr<tasks::Settings> settings;
  std::unique_ptr<const tasks::Run> opened;
  std::vector<std::string> lines;
  team::together(team, [&] {
    expect_for_team(team, o);
    const tasks::RunFolder folder(o.run);
    settings = folder.task().predict_settings();
    tasks::from_options(o.given, *settings);
    opened = folder.task().open(folder);
    lines = text::read_lines(o.file);
  });
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  const auto hash = [](const std::string& text) {
    return fmt::format("{:016x}", std::hash<std::string>()(text));
  };
  tasks::expect_same_run(team, *opened, {.file = o.file}, *settings);
  team::expect_alike(team, {{"the lines that they read (hash)", hash(all)}});
  answer_by_team(team, o, *opened, *settings, parts_of(lines));
}

void run(const PredictOptions& o) {
  if (team::Team& team = team::launched(); team.size() > 1) return run_by_team(team, o);
  const tasks::RunFolder folder(o.run);
  const tasks::Task& task = folder.task();
  const auto settings = task.predict_settings();
  tasks::from_options(o.given, *settings);
  if (!o.weights.empty()) {
    report::picture_format(o.weights);
    check_picture(o, task, *settings, o.inputs);
  }
  if (!o.file.empty() && !o.inputs.empty()) {
    throw Error("predict", "inputs are named by --file and by the command; take one of them");
  }
  if (!o.logits.empty()) return write_logits(o, task);
  const auto opened = task.open(folder);
  std::vector<report::Picture> pictures;
  if (from_standard_input(o)) {
    StandardInput lines;
    for (auto some = lines.next(); !some.empty(); some = lines.next()) {
      for (report::Picture& p : answer(o, task, *opened, *settings, {some, 0, some.size()})) {
        if (!o.weights.empty()) pictures.push_back(std::move(p));
      }
      flush_printed();
    }
  } else if (o.file.empty() || o.show || !o.weights.empty()) {
    const auto inputs = o.file.empty() ? o.inputs : text::read_lines(o.file);
    pictures = answer(o, task, *opened, *settings, {inputs, 0, inputs.size()});
  } else {
    for (const Part& part : parts_of(text::read_lines(o.file))) {
      answer(o, task, *opened, *settings, part);
    }
  }
  if (!o.weights.empty()) report::write(o.weights, pictures);
}

}  // namespace

void add_predict(CLI::App& program, const Arguments& typed) {
  CLI::App* verb =
      program.add_subcommand("predict",
                             "What a trained run makes of new input, and where it looks.\n"
                             "  fovea predict RUN --show \"some text\"\n"
                             "  fovea predict RUN --file in.txt > out.txt\n"
                             "  echo \"some text\" | fovea predict RUN --weights looked.svg");
  auto o = std::make_shared<PredictOptions>();
  const tasks::Task* task = task_of_run_in(*verb, typed);
  const bool files = task != nullptr && task->takes == tasks::Takes::pictures;
  verb->add_option("RUN", o->run, "The run folder")->required()->check(not_empty);
  verb->add_option(
      files ? "FILE" : "INPUT", o->inputs,
      files ? "Images to look at, files or the run's own (test:3); none: names from standard input"
            : "Text, or the files a task takes; none: lines from standard input");
  verb->add_option("--file", o->file,
                   "Inputs from the lines of a file (gzip too); - is standard input")
      ->check(not_empty);
  verb->add_option_function<std::string>(
          "--weights", [o](const std::string& said) { take_weights(*o, said); },
          fmt::format("Write where it looked: FILE.json, .csv, .svg or .png. Or: {}", kKeptHelp))
      ->type_name("FILE|NAME")
      ->check(not_empty)
      ->trigger_on_parse();
  verb->add_option("--logits", o->logits,
                   "Write what an opened model says of one input: ids and logits, "
                   "FILE.safetensors")
      ->check(not_empty);
  verb->add_flag("--show", o->show, "Draw where it looked");
  verb->add_flag("--json", o->json, "One JSON object a line");
  add_task_options(*verb, o->given, typed, &tasks::Task::predict_settings);
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
