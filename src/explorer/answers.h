#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "explorer/http.h"
#include "explorer/runs.h"
#include "explorer/training.h"
#include "fovea/error.h"
#include "report/report.h"

// What the page asks for, as JSON:
//   GET  /api/runs               every run: task, scores, whether it is being trained
//   GET  /api/runs/NAME          settings, examples, options of its predictions
//   GET  /api/runs/NAME/log      its curves so far
//   GET  /api/runs/NAME/looks    one example's weights at each validation
//   POST /api/runs/NAME/predict  {"input" or "file", "settings"} → predictions, with weights
//                                (asked.h says what an input is)
//   GET  /api/ways               of looking inside
//   POST /api/runs/NAME/explain  {"input" or "file", "by", "layer", "head"} → pictures, and τ
//                                also "output", "against", "beside", "top", and "from", "count":
//                                outputs from the one on
//   POST /api/runs/NAME/inside   the same, of what takes long: lines {"done"} …, then the answer
//   POST /api/runs/NAME/hold     {"input", "weights"} → what it says with other weights
//   POST /api/runs/NAME/heads    {"input"} → every head, small, and what it is like
//   POST /api/runs/NAME/weights  {"input", "layer"} → the weights of all heads of a layer
//   POST /api/runs/NAME/compare  {"input", "layer", "head", "row", "column"} → a query, a key
//   POST /api/runs/NAME/without  {"input", "off"} → what it says with heads switched off
//   POST /api/runs/NAME/faithful {"inputs"} → lines {"done"} …, then what `fovea faithful` finds
//   POST /api/runs/NAME/rank     {"sequences"} → the same of `fovea rank`
//   POST /api/runs/NAME/data     {"most"} → lines {"done"} …, then held-out inputs one by one
//   POST /api/runs/NAME/input    {"row"} → one of them, whole
//   GET  /api/runs/NAME/model    its parts: what each reads, its tensors, their shapes
//   POST /api/runs/NAME/tensor   {"name"} → a picture of it, and what it is like
//   POST /api/draw/FORMAT        {"pictures"} → svg, png, json, csv, html
//   GET  /api/tasks/NAME         what can be set of its trainings, and files that were sent
//   POST /api/uploads            {"task", "name", "file"} → a file to train with, by its number
//   POST /api/train              {"task", "settings", "upload"}: in the folder of runs, in its turn
//   POST /api/train/stop         {"run"}: saved, or taken out of the queue
//   POST /api/train/resume       {"run", "settings"}: goes on, with other limits if there are any
// Pictures are {"kind", …} as report/packed.h packs them: weights as base64 of 32-bit floats, which
// keeps them exact.
namespace fovea::explorer {

using Json = nlohmann::ordered_json;

Json packed(const std::vector<report::Picture>&);
Response draw(const Json& asked, const std::string& format);

// As JSON has it: no NaN.
Json number(double);
Json json_of(const report::Table&);
Json json_of(const std::vector<report::Chart>&);

// Nobody waits for the answer any more.
struct Cancelled {};
// Nor has anybody the time for it. Neither is an Error, which stands for an input that is wrong and
// may be left out.
struct TooLong {};
// Ends work that nobody waits for; `telling` also says how far it has come, a line at a time.
tasks::ShareDone giving_up(const Caller&);
tasks::ShareDone telling(Caller&);

Json list_runs(Runs&, const Training&);
Json describe_run(Runs&, const std::string& name);
Json curves_of(Runs&, const std::string& name);
Json looks_of(Runs&, const std::string& name);
Json predict(Runs&, const std::string& name, const Json& asked, Caller&);

Json ways_of_looking();
Json explain(Runs&, const std::string& name, const Json& asked, const tasks::ShareDone&);
Json hold(Runs&, const std::string& name, const Json& asked);
Json heads(Runs&, const std::string& name, const Json& asked);
Json layer_weights(Runs&, const std::string& name, const Json& asked);
Json compare(Runs&, const std::string& name, const Json& asked);
Json without_heads(Runs&, const std::string& name, const Json& asked);
tasks::Inside inside_of(const Runs::Opened&, const tasks::Input&);  // throws where there is none

Json faithful(Runs&, const std::string& name, const Json& asked, const tasks::ShareDone&);
Json rank(Runs&, const std::string& name, const Json& asked, const tasks::ShareDone&);

Json held_out(Runs&, const std::string& name, const Json& asked, const tasks::ShareDone&);
Json held_out_input(Runs&, const std::string& name, const Json& asked);
Json model_of(Runs&, const std::string& name);
Json weights_in(Runs&, const std::string& name, const Json& asked);

Json tasks_to_train();
Json status_of(const Training&);
Json describe_task(Training&, const std::string& task);
Json take_upload(Training&, const Json& asked);
Json begin_training(Runs&, Training&, const Json& asked);
Json stop_training(Training&, const Json& asked);
Json go_on_training(Runs&, Training&, const Json& asked);

// Everything below /api; what is bad about a request is said in {"error": …} with status 4xx.
Response answer(const Request&, Caller&, Runs&, Training&);

}  // namespace fovea::explorer
