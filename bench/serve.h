#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace fovea::bench {

// A JSON request a line on stdin, a JSON answer a line on stdout, until stdin ends.
template <class Worker>
void serve(Worker& worker) {
  using Json = nlohmann::json;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = worker.answer(Json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

}  // namespace fovea::bench
