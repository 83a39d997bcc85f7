#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/device.h"
#include "fovea/error.h"
#include "fovea/runtime.h"
#include "machine.h"

namespace fovea::bench {

using Json = nlohmann::json;

// A JSON request a line on stdin, a JSON answer a line on stdout, until stdin ends.
template <class Answer>
void serve(const Answer& answer_to) {
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = answer_to(Json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

// {"NAME": options} is answered by what the program lists under NAME.
using Calls = std::map<std::string, std::function<Json(const Json&)>>;

// A program without arguments that makes a Model by {"load": options}, and then calls its methods
// by name; others stand by themselves.
template <class Model>
int serve_model(int argc, char** argv,
                const std::map<std::string, Json (Model::*)(const Json&)>& methods,
                const Calls& others = {}) {
  if (argc > 1) {
    fmt::print(stderr, "usage: {}\n", argv[0]);
    return 2;
  }
  std::optional<Model> model;
  Calls calls = others;
  calls["load"] = [&](const Json& options) -> Json {
    model.reset();
    set_default_device(device(options.value("device", std::string("cpu"))));
    model.emplace(options);
    return {{"threads", threads()}, {"isa", isa()}};
  };
  for (const auto& entry : methods) {
    calls[entry.first] = [&model, method = entry.second](const Json& options) {
      if (!model) throw Error("bench", "nothing is loaded");
      return ((*model).*method)(options);
    };
  }
  serve([&](const Json& request) {
    for (const auto& [name, options] : request.items()) {
      const auto found = calls.find(name);
      if (found != calls.end()) return found->second(options);
    }
    throw Error("bench", fmt::format("no such call: {}", request.dump()));
  });
  return 0;
}

inline int64_t now_ns() { return static_cast<int64_t>(now_seconds() * 1e9); }

// Steps of a training, {"from", "steps"} of them: their losses and times.
template <class Step>
Json timed_steps(const Json& options, const Step& step) {
  const int64_t first = options.at("from"), count = options.at("steps");
  std::vector<float> losses;
  std::vector<int64_t> ns;
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t start = now_ns();
    losses.push_back(step(i));
    ns.push_back(now_ns() - start);
  }
  return {{"losses", losses}, {"ns", ns}};
}

}  // namespace fovea::bench
