#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fovea/error.h"
#include "fovea/team.h"

namespace fovea::team {

// ---- What is made of the five calls ------------------------------------------------------------

// Of plain values: everybody's, by rank.
template <class T>
std::vector<T> gather(Team& team, const T& mine) {
  std::vector<T> all(static_cast<size_t>(team.size()));
  std::vector<Bytes> places;
  for (T& one : all) places.push_back(std::as_writable_bytes(std::span(&one, 1)));
  team.gather(std::as_bytes(std::span(&mine, 1)), places);
  return all;
}
std::vector<std::string> gather(Team&, const std::string& mine);
std::string broadcast(Team&, const std::string& of_the_first);

// Work that each rank does by itself, without a call to the team. Where it throws on any rank, it
// does on all: what it threw, on the ranks that threw it, once where several threw the same;
// Elsewhere on the others.
void together(Team&, const std::function<void()>& work);

// Parts 0 … n − 1 of some work, which the ranks take in turns. work(i) gives what comes of a part,
// without a call to the team; take(i, …) gets it on every rank, in the order of parts. Where work
// throws on any rank, it does on all, as in together().
struct DealtParts {
  size_t n = 0;
  std::function<std::string(size_t)> work;
  std::function<void(size_t, std::string)> take;
  const std::atomic<bool>* stop = nullptr;  // set on any rank, all end before their next parts
};
bool deal(Team&, const DealtParts&);  // false: stopped

// What all ranks found wrong: the first says so.
[[noreturn]] void fail_everywhere(Team&, const Error&);

// What must be the same on all ranks, by name. Where it is not, says which rank has what.
void expect_alike(Team&, const std::map<std::string, std::string>& facts);

}  // namespace fovea::team
