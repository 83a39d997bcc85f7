#include "team/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

namespace fovea::team {
namespace {

class TeamOfOne : public Team {
 public:
  TeamOfOne() : Team(0, 1) {}
  void exchange(std::span<const ConstBytes> send, std::span<const Bytes> received) override {
    std::ranges::copy(send[0], received[0].begin());
  }
  void abort(int) noexcept override { std::terminate(); }
};

ConstBytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
Bytes bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

}  // namespace

Team& alone() {
  static TeamOfOne one;
  return one;
}

void Team::gather(ConstBytes mine, std::span<const Bytes> all) {
  exchange(std::vector<ConstBytes>(static_cast<size_t>(size_), mine), all);
}

void Team::broadcast(Bytes bytes, int from) {
  const size_t n = static_cast<size_t>(size_), root = static_cast<size_t>(from);
  std::vector<ConstBytes> send(n);
  std::vector<Bytes> received(n);
  if (rank_ == from) {
    std::ranges::fill(send, bytes);
    send[root] = {};
  } else {
    received[root] = bytes;
  }
  exchange(send, received);
}

void Team::barrier() { team::gather(*this, char{}); }

std::vector<std::string> gather(Team& team, const std::string& mine) {
  std::vector<std::string> all;
  for (const size_t size : gather(team, mine.size())) all.emplace_back(size, '\0');
  std::vector<Bytes> places;
  for (std::string& one : all) places.push_back(bytes_of(one));
  team.gather(bytes_of(mine), places);
  return all;
}

std::string broadcast(Team& team, const std::string& of_the_first) {
  size_t size = of_the_first.size();
  team.broadcast(std::as_writable_bytes(std::span(&size, 1)));
  std::string text = team.is_first() ? of_the_first : std::string(size, '\0');
  team.broadcast(bytes_of(text));
  return text;
}

// ---- Failing as one ----------------------------------------------------------------------------

namespace {

struct Outcome {
  int exit_code = 0;  // 1: unexpected, 2: an Error
  uint64_t message = 0;
};

}  // namespace

void together(Team& team, const std::function<void()>& work) {
  if (team.size() == 1) return work();
  std::exception_ptr thrown;
  Outcome mine;
  const auto failed = [&](int code, const char* message) {
    thrown = std::current_exception();
    mine = {code, std::hash<std::string>()(message)};
  };
  try {
    work();
  } catch (const Error& error) {
    failed(2, error.what());
  } catch (const std::exception& error) {
    failed(1, error.what());
  }
  const std::vector<Outcome> all = gather(team, mine);
  const auto has_failed = [](const Outcome& o) { return o.exit_code != 0; };
  const auto first = std::ranges::find_if(all, has_failed);
  if (first == all.end()) return;
  team.set_over();
  const auto same = std::ranges::find(all, mine.message, &Outcome::message);
  if (thrown && same - all.begin() == team.rank()) std::rethrow_exception(thrown);
  throw Elsewhere{first->exit_code};
}

bool deal(Team& team, const DealtParts& p) {
  const size_t ranks = static_cast<size_t>(team.size());
  expect_alike(team, {{"the parts of their work", std::to_string(p.n)}});
  for (size_t at = 0; at < p.n; at += ranks) {
    const size_t own = at + static_cast<size_t>(team.rank());
    const bool stop = p.stop != nullptr && p.stop->load();
    const std::vector<int> stops = gather(team, static_cast<int>(stop));
    if (std::ranges::any_of(stops, [](int s) { return s != 0; })) return false;
    std::string mine;
    together(team, [&] {
      if (own < p.n) mine = p.work(own);
    });
    std::vector<std::string> all = gather(team, mine);
    for (size_t r = 0; r < ranks && at + r < p.n; ++r) p.take(at + r, std::move(all[r]));
  }
  return true;
}

void fail_everywhere(Team& team, const Error& error) {
  team.set_over();
  if (team.is_first()) throw error;
  throw Elsewhere{2};
}

void expect_alike(Team& team, const std::map<std::string, std::string>& facts) {
  for (const auto& [name, value] : facts) {
    const std::vector<std::string> all = gather(team, value);
    const auto other = std::ranges::find_if(all, [&](const auto& v) { return v != all[0]; });
    if (other == all.end()) continue;
    fail_everywhere(team, Error("team", fmt::format("the processes differ in {}: rank {} has {}, "
                                                    "rank 0 has {}",
                                                    name, other - all.begin(), *other, all[0])));
  }
}

}  // namespace fovea::team
