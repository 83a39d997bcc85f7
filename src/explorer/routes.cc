#include <algorithm>
#include <chrono>

#include "core/allocator.h"
#include "core/interrupt.h"
#include "explorer/answers.h"
#include "fovea/error.h"
#include "io/json.h"

// Which question goes where, and what is said where it leads nowhere.
namespace fovea::explorer {
namespace {

Json error_json(const std::string& what) {
  return {{"error", what.empty() ? "it failed, and nothing says why" : what}};
}

Response json_response(const Json& j, int status = 200) {
  return {.status = status, .body = j.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Json body_of(const Request& request) {
  const Json j = parse_json(request.body, "the request");
  if (!j.is_object()) throw Error("request", "the request is no JSON object");
  return j;
}

struct ApiCall {
  const Request& request;
  std::string name;  // what stands for * in the route's path
  Caller& caller;
  Runs& runs;
  Training& training;
  Json body() const { return body_of(request); }
};

// What tells how far it is may take as long as somebody waits for it; so may reading a run's data.
enum class TimeLimit : uint8_t { minutes, none };
constexpr auto kMinutes = std::chrono::minutes(2);

struct Route {
  const char* method;
  std::vector<std::string> path;  // below /api
  std::function<Response(const ApiCall&)> answer;
  TimeLimit limit = TimeLimit::minutes;
};

// What a function of the call gives, as the answer.
template <class F>
std::function<Response(const ApiCall&)> as_json(F f) {
  return [f](const ApiCall& q) { return json_response(f(q)); };
}

const std::vector<Route>& routes() {
  static const std::vector<Route> all = {
      {"GET", {"runs"}, as_json([](auto& q) { return list_runs(q.runs, q.training); })},
      {"GET",
       {"runs", "*"},
       as_json([](auto& q) { return describe_run(q.runs, q.name); }),
       TimeLimit::none},
      {"GET", {"runs", "*", "log"}, as_json([](auto& q) { return curves_of(q.runs, q.name); })},
      {"GET", {"runs", "*", "looks"}, as_json([](auto& q) { return looks_of(q.runs, q.name); })},
      {"GET", {"ways"}, as_json([](auto&) { return ways_of_looking(); })},
      {"POST", {"runs", "*", "predict"}, as_json([](auto& q) {
         return predict(q.runs, q.name, q.body(), q.caller);
       })},
      {"POST", {"runs", "*", "explain"}, as_json([](auto& q) {
         return explain(q.runs, q.name, q.body(), giving_up(q.caller));
       })},
      {"POST",
       {"runs", "*", "inside"},
       as_json([](auto& q) { return explain(q.runs, q.name, q.body(), telling(q.caller)); }),
       TimeLimit::none},
      {"POST", {"runs", "*", "hold"}, as_json([](auto& q) {
         return hold(q.runs, q.name, q.body());
       })},
      {"POST", {"runs", "*", "heads"}, as_json([](auto& q) {
         return heads(q.runs, q.name, q.body());
       })},
      {"POST", {"runs", "*", "weights"}, as_json([](auto& q) {
         return layer_weights(q.runs, q.name, q.body());
       })},
      {"POST", {"runs", "*", "compare"}, as_json([](auto& q) {
         return compare(q.runs, q.name, q.body());
       })},
      {"POST", {"runs", "*", "without"}, as_json([](auto& q) {
         return without_heads(q.runs, q.name, q.body());
       })},
      {"POST",
       {"runs", "*", "faithful"},
       as_json([](auto& q) { return faithful(q.runs, q.name, q.body(), telling(q.caller)); }),
       TimeLimit::none},
      {"POST",
       {"runs", "*", "rank"},
       as_json([](auto& q) { return rank(q.runs, q.name, q.body(), telling(q.caller)); }),
       TimeLimit::none},
      {"POST",
       {"runs", "*", "data"},
       as_json([](auto& q) { return held_out(q.runs, q.name, q.body(), telling(q.caller)); }),
       TimeLimit::none},
      {"POST",
       {"runs", "*", "input"},
       as_json([](auto& q) { return held_out_input(q.runs, q.name, q.body()); }),
       TimeLimit::none},
      {"GET", {"runs", "*", "model"}, as_json([](auto& q) { return model_of(q.runs, q.name); })},
      {"POST", {"runs", "*", "tensor"}, as_json([](auto& q) {
         return weights_in(q.runs, q.name, q.body());
       })},
      {"POST", {"draw", "*"}, [](const ApiCall& q) { return draw(q.body(), q.name); }},
      {"GET", {"tasks", "*"}, as_json([](auto& q) { return describe_task(q.training, q.name); })},
      {"POST", {"uploads"}, as_json([](auto& q) { return take_upload(q.training, q.body()); })},
      {"POST", {"train"}, as_json([](auto& q) {
         return begin_training(q.runs, q.training, q.body());
       })},
      {"POST", {"train", "stop"}, as_json([](auto& q) {
         return stop_training(q.training, q.body());
       })},
      {"POST", {"train", "resume"}, as_json([](auto& q) {
         return go_on_training(q.runs, q.training, q.body());
       })},
  };
  return all;
}

bool leads_to(const Route& route, const std::vector<std::string>& parts) {
  return std::equal(route.path.begin(), route.path.end(), parts.begin() + 1, parts.end(),
                    [](const std::string& a, const std::string& b) { return a == "*" || a == b; });
}

// Ends work that nobody waits for, or that takes too long.
std::function<void()> wanted_by(const Caller& caller, TimeLimit limit) {
  using Clock = std::chrono::steady_clock;
  return [&caller, limit, until = Clock::now() + kMinutes] {
    if (caller.gone()) throw Cancelled();
    if (limit == TimeLimit::none || Clock::now() < until) return;
    throw TooLong();
  };
}

// What an answer took is kept for the next one as far as it is little. Of a long text and a large
// model it is hundreds of megabytes, of other sizes for the next text. A training at work keeps its
// own.
class TidyAfter {
 public:
  explicit TidyAfter(const Training& t) : training_(t) {}
  ~TidyAfter() {
    constexpr int64_t kSpare = int64_t{64} << 20;
    if (training_.latest().state != Training::State::running) release_memory(kSpare);
  }

 private:
  const Training& training_;
};

Response route(const Request& request, Caller& caller, Runs& runs, Training& training) {
  const std::vector<std::string> parts = parts_of(request.path);
  const std::string method = request.method == "POST" ? "POST" : "GET";
  for (const Route& r : routes()) {
    if (parts.empty() || r.method != method || !leads_to(r, parts)) continue;
    const Interruptible wanted(wanted_by(caller, r.limit));
    const TidyAfter tidy(training);
    return r.answer({request, parts.size() > 2 ? parts[2] : "", caller, runs, training});
  }
  throw NotThere{"no such page"};
}

}  // namespace

tasks::ShareDone giving_up(const Caller& caller) {
  return [&caller](double) {
    if (caller.gone()) throw Cancelled();
  };
}

tasks::ShareDone telling(Caller& caller) {
  static constexpr auto kEvery = std::chrono::milliseconds(100);
  using Clock = std::chrono::steady_clock;
  return [&caller, said = Clock::time_point()](double done) mutable {
    if (caller.gone()) throw Cancelled();
    if (Clock::now() - said < kEvery) return;
    said = Clock::now();
    caller.send(Json{{"done", done}}.dump() + "\n");
  };
}

Response answer(const Request& request, Caller& caller, Runs& runs, Training& training) {
  try {
    return route(request, caller, runs, training);
  } catch (const NotThere& e) {
    return json_response(error_json(e.what), 404);
  } catch (const Cancelled&) {
    return json_response(error_json("cancelled"), 409);
  } catch (const TooLong&) {
    return json_response(error_json("this took two minutes and was given up; ask for less, or "
                                    "`fovea predict`, which takes as long as it needs"),
                         422);
  } catch (const Error& e) {
    return json_response(error_json(std::string(e.message())), 422);
  } catch (const Json::exception& e) {
    return json_response(error_json(std::string("the request is malformed: ") + e.what()), 400);
  }
}

}  // namespace fovea::explorer
