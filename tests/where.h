#pragma once

#include <string>

// Where this build has its sources and the program to test; CMake writes the definitions, apart
// from the tests, whose objects then are the same in every checkout.
namespace fovea::test {

std::string source_dir();
std::string program();
std::string program_without();  // of a program that has something more: the one that has not

}  // namespace fovea::test
