#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "app/verbs.h"
#include "arrays.h"
#include "fovea/error.h"
#include "report/heatmap.h"
#include "tasks/explain.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// fovea._program: the program itself, runs that it trained, and pictures. Opened when one of them
// is asked for.
namespace nb = nanobind;

namespace fovea::python {
namespace {

using nb::literals::operator""_a;
using report::Picture;

int main_of(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& one : arguments) argv.push_back(one.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release others;
  return app::run_program(static_cast<int>(arguments.size()), argv.data());
}

// ---- pictures ----------------------------------------------------------------------------------

Picture heatmap(std::string title, std::vector<std::string> rows, std::vector<std::string> columns,
                nb::handle weights) {
  const Tensor w = take("heatmap", "weights", weights);
  report::Heatmap map{std::move(title), std::move(rows), std::move(columns), w.to_vector()};
  for (const float x : map.weights)
    if (x < 0) map.scale = report::Scale::around_zero;
  return Picture(std::move(map));
}

nb::bytes png(const Picture& picture) {
  const std::string bytes = report::to_png({picture});
  return nb::bytes(bytes.data(), bytes.size());
}

void bind_pictures(nb::module_& m) {
  nb::class_<Picture>(m, "Picture")
      .def_prop_ro("kind", [](const Picture& p) { return p.kind().name; })
      .def("svg", [](const Picture& p) { return report::to_svg({p}); })
      .def("png", &png)
      .def("json", &report::to_json)
      .def("text",
           [](const Picture& p, int width) { return to_text(p, report::Ink::plain, width); });
  m.def("heatmap", &heatmap, "title"_a, "rows"_a, "columns"_a, "weights"_a);
}

// ---- runs --------------------------------------------------------------------------------------

// A run that was opened.
struct Opened {
  tasks::RunFolder folder;
  std::unique_ptr<const tasks::Run> run;

  explicit Opened(const std::string& path) : folder(path) {
    const nb::gil_scoped_release others;
    run = folder.task().open(folder);
  }
  tasks::Input input(const std::string& typed, const tasks::Settings* settings) const {
    return tasks::typed_input(folder.task(), typed, run->class_column(settings));
  }
};

nb::list predict(const Opened& o, const std::vector<std::string>& typed, const tasks::Given& given,
                 bool pictures) {
  std::vector<tasks::Predictions> all;
  {
    const nb::gil_scoped_release others;
    const auto settings = o.folder.task().predict_settings();
    tasks::from_options(given, *settings);
    std::vector<tasks::Input> inputs;
    for (const std::string& one : typed) inputs.push_back(o.input(one, settings.get()));
    all = o.run->predict(inputs, *settings,
                         {.maps = pictures ? tasks::Maps::keep : tasks::Maps::none});
  }
  nb::list answers;
  for (const tasks::Predictions& best : all) {
    nb::list some;
    for (const tasks::Prediction& p : best)
      some.append(nb::make_tuple(p.text, p.score, p.ended, p.pictures));
    answers.append(some);
  }
  return answers;
}

tasks::Inside inside_of(const Opened& o, const std::string& typed) {
  auto inside = o.run->inside(o.input(typed, nullptr));
  if (!inside) throw Error("explain", "nobody has looked inside " + o.folder.task().name + " yet");
  return std::move(*inside);
}

nb::list explain(const Opened& o, const std::string& typed, const std::vector<std::string>& by,
                 const std::map<std::string, std::string>& which) {
  std::vector<tasks::Explanation> all;
  std::vector<Picture> pictures;
  {
    const nb::gil_scoped_release others;
    const tasks::Inside inside = inside_of(o, typed);
    tasks::Explaining how;
    for (const std::string& name : by) how.by.push_back(tasks::way(name));
    how.output = which.contains("output") ? which.at("output") : "";
    how.layer = which.contains("layer") ? which.at("layer") : "";
    how.head = which.contains("head") ? which.at("head") : "";
    all = tasks::explain(inside, how);
    for (const tasks::Explanation& e : all) pictures.push_back(tasks::picture_of(inside, e));
  }
  nb::list found;
  for (size_t i = 0; i < all.size(); ++i) {
    const report::Heatmap& map = all[i].map;
    const Tensor weights =
        Tensor::from(map.weights, {std::ssize(map.rows), std::ssize(map.columns)});
    found.append(nb::make_tuple(name_of(all[i].by), give(weights, Kind::numpy), map.rows,
                                map.columns, all[i].note, pictures[i]));
  }
  return found;
}

void bind_runs(nb::module_& m) {
  nb::class_<Opened>(m, "Opened")
      .def(nb::init<const std::string&>())
      .def_prop_ro("task", [](const Opened& o) { return o.folder.task().name; })
      .def_prop_ro("about", [](const Opened& o) { return o.folder.task().about; })
      .def_prop_ro("weights", [](const Opened& o) { return o.run->weights(); })
      .def_prop_ro("config",
                   [](const Opened& o) { return tasks::to_json(*o.run->copy_of_config()).dump(); })
      .def("predict", &predict, "inputs"_a, "settings"_a, "pictures"_a)
      .def("explain", &explain, "input"_a, "by"_a, "which"_a);
  m.def("ways", [] {
    std::vector<std::string> names;
    for (const tasks::By by : tasks::ways()) names.emplace_back(name_of(by));
    return names;
  });
}

}  // namespace
}  // namespace fovea::python

NB_MODULE(_program, m) {
  nb::set_leak_warnings(false);  // caches and operators live until the interpreter ends
  fovea::python::translate_errors();
  m.def("main", &fovea::python::main_of);
  fovea::python::bind_pictures(m);
  fovea::python::bind_runs(m);
}
