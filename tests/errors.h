#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fovea/error.h"

// What a call complains of.
namespace fovea::test {

inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  return "no error";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fovea::test
