#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

using FuzzTarget = int (*)(const uint8_t* data, size_t size);

// By the names of their files.
const std::map<std::string, FuzzTarget>& fuzz_targets();
