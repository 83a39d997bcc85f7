#include "team/launched.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>

#include "core/module_file.h"
#include "team/module.h"

namespace fovea::team {
namespace {

constexpr const char* kFile = "libfovea_mpi.so";
constexpr double kDeadline = 3600;  // seconds

// ---- The module --------------------------------------------------------------------------------

const Module& open_module(const std::string& file, const std::string& launcher) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error("team", fmt::format("started by {}, but the MPI module cannot be opened: {}; it is "
                                    "built where MPI is found, FOVEA_MPI_MODULE says where it is",
                                    launcher, reason != nullptr ? reason : file));
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleEntry));
  const Module* const module = entry != nullptr ? entry(kModuleVersion) : nullptr;
  if (module == nullptr) {
    throw Error("team", fmt::format("{} is not an MPI module of version {}; build it together with "
                                    "this program",
                                    file, kModuleVersion));
  }
  return *module;  // never closed: MPI's own threads may outlive everything else
}

void expect_done(const Module& module, const char* failure) {
  if (failure != nullptr) throw Error("team", fmt::format("{}: {}", module.library, failure));
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double deadline() {
  const char* said = std::getenv("FOVEA_DEADLINE");
  if (said == nullptr) return kDeadline;
  char* end = nullptr;
  const double found = std::strtod(said, &end);
  if (end != said && *end == '\0' && found > 0) return found;
  throw Error("team", fmt::format("FOVEA_DEADLINE must be seconds, more than 0, found '{}'", said));
}

// Others may need the core: at once, and for longer the longer it takes.
void pause_after(double waited) {
  if (waited < 1e-4) {
    ::sched_yield();
    return;
  }
  const timespec pause{0, waited < 1e-2 ? 20'000 : 500'000};
  ::nanosleep(&pause, nullptr);
}

class MpiTeam : public Team {
 public:
  MpiTeam(const Module& module, int rank, int size, double deadline)
      : Team(rank, size), module_(module), deadline_(deadline) {}

  void exchange(std::span<const ConstBytes> send, std::span<const Bytes> received) override {
    std::vector<Message> out, in;
    for (int r = 0; r < size(); ++r) {
      const ConstBytes from = send[static_cast<size_t>(r)];
      const Bytes to = received[static_cast<size_t>(r)];
      if (r == rank()) {
        std::ranges::copy(from, to.begin());
        continue;
      }
      if (!from.empty()) out.push_back({r, const_cast<std::byte*>(from.data()), from.size()});
      if (!to.empty()) in.push_back({r, to.data(), to.size()});
    }
    expect_done(module_, module_.begin(out.data(), out.size(), in.data(), in.size()));
    wait_for(out, in);
  }

  void abort(int code) noexcept override { module_.abort(code); }
  void leave() const noexcept { module_.leave(); }

 private:
  void wait_for(const std::vector<Message>& out, const std::vector<Message>& in) const {
    const double began = seconds();
    bool told = module_.tell_waiting == nullptr;
    for (;;) {
      bool done = false;
      expect_done(module_, module_.poll(&done));
      if (done) return;
      const double waited = seconds() - began;
      if (!told && waited > deadline_ / 4) {
        module_.tell_waiting();
        told = true;
      }
      if (waited > deadline_) fail_late(out, in);
      pause_after(waited);
    }
  }

  // Who has not sent or taken what is under way; of these, whoever waits itself is not the cause.
  std::vector<int> missing(const std::vector<Message>& out, const std::vector<Message>& in) const {
    std::set<int> all;
    const auto add = [&](const std::vector<Message>& messages, bool (*done)(size_t)) {
      for (size_t i = 0; i < messages.size() && done != nullptr; ++i) {
        if (!done(i)) all.insert(messages[i].peer);
      }
    };
    add(in, module_.has_come);
    add(out, module_.has_gone);
    std::vector<int> idle;
    std::ranges::copy_if(all, std::back_inserter(idle),
                         [&](int r) { return module_.waits == nullptr || !module_.waits(r); });
    return idle.empty() ? std::vector<int>(all.begin(), all.end()) : idle;
  }

  [[noreturn]] void fail_late(const std::vector<Message>& out,
                              const std::vector<Message>& in) const {
    const std::vector<int> late = missing(out, in);
    throw Error("team",
                fmt::format("{} {} not answered for {} s (FOVEA_DEADLINE), so that all end; what "
                            "was saved is kept",
                            late.empty() ? "some other rank"
                                         : fmt::format("rank {}", fmt::join(late, ", ")),
                            late.size() > 1 ? "have" : "has", deadline_));
  }

  const Module& module_;
  const double deadline_;
};

// ---- Launchers ---------------------------------------------------------------------------------

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;  // null: only the module knows
};
// Slurm's of a step alone: in a batch script SLURM_NTASKS is there for who starts none.
constexpr Launcher kLaunchers[] = {{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"MPICH", "PMI_RANK", "PMI_SIZE"},
                                   {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                   {"a PMIx launcher", "PMIX_RANK", nullptr}};

const Launcher* launcher() {
  for (const Launcher& l : kLaunchers) {
    if (std::getenv(l.size != nullptr ? l.size : l.rank) != nullptr) return &l;
  }
  return nullptr;
}

int number_in(const char* variable) {
  const char* value = variable != nullptr ? std::getenv(variable) : nullptr;
  return value != nullptr ? std::atoi(value) : 0;
}

std::unique_ptr<MpiTeam> joined;
bool tried = false;

}  // namespace

std::string launcher_of_several() {
  const Launcher* by = launcher();
  return by == nullptr || number_in(by->size) == 1 ? "" : by->name;
}

int launched_rank() {
  const Launcher* by = launcher();
  return by != nullptr ? number_in(by->rank) : 0;
}

Team& launched() {
  if (joined) return *joined;
  const Launcher* by = launcher();
  const int said = by != nullptr ? number_in(by->size) : 1;
  if (said == 1) return alone();
  tried = true;
  const std::string file = module_file("FOVEA_MPI_MODULE", kFile);
  const Module& module = open_module(
      file, said > 1 ? fmt::format("{} as one of {} processes", by->name, said) : by->name);
  const double seconds_to_wait = deadline();
  int rank = launched_rank(), size = said;
  expect_done(module, module.join(&rank, &size));
  if (said > 1 && size != said) {
    module.leave();
    throw Error("team",
                fmt::format("{} started {} processes, but {} ({}) sees {}: it is of another "
                            "MPI than the launcher; compile it with that one's mpicxx, or "
                            "name the right one by FOVEA_MPI_MODULE",
                            by->name, said, file, module.library, size));
  }
  joined = std::make_unique<MpiTeam>(module, rank, size, seconds_to_wait);
  return *joined;
}

bool has_joined() noexcept { return joined != nullptr; }
bool has_tried_to_join() noexcept { return tried; }

bool others_work() noexcept { return joined && !joined->is_over(); }

void leave(int exit_code) noexcept {
  if (!joined) return;
  if (exit_code != 0 && others_work()) {
    joined->abort(exit_code);
  } else {
    joined->leave();
  }
}

}  // namespace fovea::team
