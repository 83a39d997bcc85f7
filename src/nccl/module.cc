#include <fcntl.h>
#include <nccl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "team/module.h"

// A team whose bytes go from GPU to GPU. They are copied to the GPU, sent, received and copied
// back; NCCL adds nothing, so that bits are those of any other team.
namespace {

using fovea::team::Message;
using fovea::team::Module;

constexpr double kJoinDeadline = 300;  // seconds, where FOVEA_DEADLINE says nothing
constexpr double kLeaveDeadline = 10;
constexpr size_t kAligned = 256;  // bytes
constexpr std::string_view kMark = "fovea nccl id\n";

const char* sentence(std::string text) {
  static std::string said;
  said = std::move(text);
  return said.c_str();
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause_for(double seconds) {
  const timespec pause{0, static_cast<int64_t>(seconds * 1e9)};
  ::nanosleep(&pause, nullptr);
}

// ---- This process's part -----------------------------------------------------------------------

// Memory of the GPU, where the messages of one side lie one behind the other.
struct Staged {
  std::vector<Message> messages;
  std::vector<size_t> begin;  // of each message, in `memory`
  char* memory = nullptr;
  size_t capacity = 0;

  // The same bytes for several ranks lie there once.
  cudaError_t place(const Message* given, size_t n) {
    messages.assign(given, given + n);
    begin.clear();
    size_t end = 0;
    for (size_t i = 0; i < n; ++i) {
      if (repeats(i)) {
        begin.push_back(begin.back());
        continue;
      }
      begin.push_back(end);
      end += (messages[i].size + kAligned - 1) / kAligned * kAligned;
    }
    if (end <= capacity) return cudaSuccess;
    cudaFree(memory);
    capacity = 0;
    memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, end);
    if (code == cudaSuccess) capacity = end;
    return code;
  }
  bool repeats(size_t i) const {
    return i > 0 && messages[i].bytes == messages[i - 1].bytes &&
           messages[i].size == messages[i - 1].size;
  }
};

ncclComm_t communicator = nullptr;
cudaStream_t stream = nullptr;
Staged sent, received;
bool under_way = false;

const char* sentence_of(cudaError_t code) {
  if (code == cudaSuccess) return nullptr;
  return sentence(std::string("the GPU: ") + cudaGetErrorString(code));
}

// A communicator that does not block: what is under way is no failure.
const char* sentence_of(ncclResult_t code) {
  if (code == ncclSuccess || code == ncclInProgress) return nullptr;
  const char* const last = ncclGetLastError(communicator);
  return sentence(std::string(last != nullptr && *last != '\0' ? last : ncclGetErrorString(code)) +
                  "; NCCL_DEBUG=WARN says more");
}

const char* look(bool* done) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(communicator, &state);
  *done = state != ncclInProgress;
  return sentence_of(code != ncclSuccess ? code : state);
}

void give_up() {
  if (communicator != nullptr) ncclCommAbort(communicator);
  communicator = nullptr;
}

// ---- Which GPU ---------------------------------------------------------------------------------

// Among the processes of this machine, by the launcher's word; -1: it says nothing.
int local_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const char* said = std::getenv(variable)) return std::atoi(said);
  }
  return -1;
}

const char* take_gpu(int rank, int size) {
  int gpus = 0;
  const cudaError_t code = cudaGetDeviceCount(&gpus);
  if (code != cudaSuccess || gpus == 0) {
    return sentence("rank " + std::to_string(rank) + " sees no GPU (" +
                    (code != cudaSuccess ? cudaGetErrorString(code) : "there is none") +
                    "): start it where there is one, or take MPI's module");
  }
  int local = local_rank();
  if (local < 0 && size > 1 && gpus > 1) {
    return sentence(
        "the launcher does not say which process of its machine this is: give each a GPU of its "
        "own by CUDA_VISIBLE_DEVICES");
  }
  // Launchers that hand out GPUs show each process its own alone.
  if (local < 0 || (gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr)) local = 0;
  if (local >= gpus) {
    return sentence("rank " + std::to_string(rank) + " is process " + std::to_string(local + 1) +
                    " of its machine, which has " + std::to_string(gpus) +
                    (gpus == 1 ? " GPU" : " GPUs") + ": start at most one process for each");
  }
  const char* failure = sentence_of(cudaSetDevice(local));
  if (failure == nullptr) {
    failure = sentence_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  return failure;
}

// ---- Meeting -----------------------------------------------------------------------------------

// Rank r > 0 writes a random number into FILE.r. The first writes FILE: the id, and what numbers it
// has seen; it goes on looking until all have joined. A rank believes a FILE that has its number,
// so that what a former run left there misleads nobody.
struct Meeting {
  ncclUniqueId id;
  std::vector<uint64_t> numbers;  // by rank; 0: not seen
};

std::string read_whole(const std::string& file) {
  std::string bytes;
  if (std::FILE* f = std::fopen(file.c_str(), "rb")) {
    char piece[4096];
    for (size_t n; (n = std::fread(piece, 1, sizeof(piece), f)) > 0;) bytes.append(piece, n);
    std::fclose(f);
  }
  return bytes;
}

// Whole or not at all.
const char* write_whole(const std::string& file, const std::string& bytes) {
  const std::string part = file + ".part";
  const int f = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      f >= 0 && ::write(f, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const bool closed = f >= 0 && ::close(f) == 0;
  if (written && closed && std::rename(part.c_str(), file.c_str()) == 0) return nullptr;
  return sentence("cannot write " + file + " (" + std::strerror(errno) +
                  "): FOVEA_NCCL_ID must name a file in a folder that all processes share");
}

std::string bytes_of(const Meeting& m) {
  std::string bytes(kMark);
  bytes.append(reinterpret_cast<const char*>(&m.id), sizeof(m.id));
  bytes.append(reinterpret_cast<const char*>(m.numbers.data()), m.numbers.size() * 8);
  return bytes;
}

bool read_meeting(const std::string& file, Meeting& m) {
  const std::string bytes = read_whole(file);
  if (bytes.size() != kMark.size() + sizeof(m.id) + m.numbers.size() * 8) return false;
  const char* at = bytes.data() + kMark.size();
  std::memcpy(&m.id, at, sizeof(m.id));
  std::memcpy(m.numbers.data(), at + sizeof(m.id), m.numbers.size() * 8);
  return true;
}

std::string of_rank(const std::string& file, size_t rank) {
  return file + "." + std::to_string(rank);
}

struct Joining {
  int rank, size;
  std::string file;
  double deadline;  // seconds
  double began = seconds();
  bool late() const { return seconds() - began > deadline; }
  std::string waited() const {
    std::string text = std::to_string(deadline);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " s (FOVEA_DEADLINE)";
  }
};

const char* find_first(const Joining& j, Meeting& m) {
  const size_t rank = static_cast<size_t>(j.rank);
  uint64_t number = 0;
  for (std::random_device random; number == 0;) number = uint64_t{random()} << 32 | random();
  const char* failure = write_whole(
      of_rank(j.file, rank), std::string(reinterpret_cast<const char*>(&number), sizeof(number)));
  while (failure == nullptr && !(read_meeting(j.file, m) && m.numbers[rank] == number)) {
    if (j.late()) {
      return sentence("rank 0 has not answered in " + j.file + " for " + j.waited() +
                      ": it must run, and FOVEA_NCCL_ID be the same file for all");
    }
    pause_for(0.02);
  }
  return failure;
}

const char* show_others(const Joining& j, Meeting& m) {
  const std::vector<uint64_t> before = m.numbers;
  for (size_t r = 1; r < m.numbers.size(); ++r) {
    const std::string bytes = read_whole(of_rank(j.file, r));
    if (bytes.size() == sizeof(uint64_t)) std::memcpy(&m.numbers[r], bytes.data(), bytes.size());
  }
  return m.numbers != before ? write_whole(j.file, bytes_of(m)) : nullptr;
}

const char* fail_late(const Joining& j, const Meeting& m) {
  std::string missing;
  for (size_t r = 1; r < m.numbers.size(); ++r) {
    if (m.numbers[r] == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  if (j.rank != 0 || missing.empty()) {
    return sentence("the GPUs have not found each other for " + j.waited() +
                    ": NCCL_DEBUG=INFO says what they try, NCCL_SOCKET_IFNAME over which network");
  }
  return sentence("rank " + missing + " left nothing beside " + j.file + " for " + j.waited() +
                  ": all must run, and FOVEA_NCCL_ID be the same file for all");
}

const char* meet(const Joining& j) {
  Meeting m{{}, std::vector<uint64_t>(static_cast<size_t>(j.size))};
  const char* failure = j.rank == 0 ? sentence_of(ncclGetUniqueId(&m.id)) : find_first(j, m);
  if (failure != nullptr) return failure;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  failure = sentence_of(ncclCommInitRankConfig(&communicator, j.size, m.id, j.rank, &config));
  for (bool done = false; failure == nullptr;) {
    failure = look(&done);
    if (failure == nullptr && done) return nullptr;
    if (failure == nullptr && j.rank == 0) failure = show_others(j, m);
    if (failure == nullptr && j.late()) failure = fail_late(j, m);
    pause_for(0.02);
  }
  give_up();
  return failure;
}

const char* join(int* rank, int* size) {
  if (*size < 1 || *rank < 0 || *rank >= *size) {
    return sentence(
        "the launcher does not say how many processes there are: start them by Open MPI's or "
        "MPICH's mpirun, or by srun");
  }
  const char* const file = std::getenv("FOVEA_NCCL_ID");
  if (file == nullptr || *file == '\0') {
    return sentence(
        "FOVEA_NCCL_ID must name a file, which need not exist, in a folder that all processes "
        "share");
  }
  const std::string there = read_whole(file);
  if (!there.empty() && !there.starts_with(kMark)) {
    return sentence(
        std::string(file) +
        " is a file of another kind: FOVEA_NCCL_ID must name one that need not be kept");
  }
  if (const char* failure = take_gpu(*rank, *size)) return failure;
  const char* const deadline = std::getenv("FOVEA_DEADLINE");
  const Joining j{*rank, *size, file, deadline != nullptr ? std::atof(deadline) : kJoinDeadline};
  const char* const failure = meet(j);
  ::unlink((*rank == 0 ? j.file : of_rank(j.file, static_cast<size_t>(*rank))).c_str());
  return failure;
}

// ---- Moving ------------------------------------------------------------------------------------

const char* copy(const Staged& staged, cudaMemcpyKind kind) {
  for (size_t i = 0; i < staged.messages.size(); ++i) {
    const Message& m = staged.messages[i];
    char* const there = staged.memory + staged.begin[i];
    if (kind == cudaMemcpyHostToDevice && staged.repeats(i)) continue;
    const cudaError_t code = kind == cudaMemcpyHostToDevice
                                 ? cudaMemcpyAsync(there, m.bytes, m.size, kind, stream)
                                 : cudaMemcpyAsync(m.bytes, there, m.size, kind, stream);
    if (code != cudaSuccess) return sentence_of(code);
  }
  return nullptr;
}

template <class Move>
ncclResult_t move(const Staged& staged, const Move& move_one) {
  for (size_t i = 0; i < staged.messages.size(); ++i) {
    const Message& m = staged.messages[i];
    if (m.size == 0) continue;
    const ncclResult_t code =
        move_one(staged.memory + staged.begin[i], m.size, ncclChar, m.peer, communicator, stream);
    if (code != ncclSuccess && code != ncclInProgress) return code;
  }
  return ncclSuccess;
}

const char* begin(const Message* to_send, size_t n_sent, const Message* to_receive,
                  size_t n_received) {
  under_way = false;
  const char* failure = sentence_of(sent.place(to_send, n_sent));
  if (failure == nullptr) failure = sentence_of(received.place(to_receive, n_received));
  if (failure == nullptr) failure = copy(sent, cudaMemcpyHostToDevice);
  if (failure != nullptr || n_sent + n_received == 0) return failure;
  ncclResult_t code = ncclGroupStart();
  if (code == ncclSuccess) code = move(received, ncclRecv);
  if (code == ncclSuccess) code = move(sent, ncclSend);
  const ncclResult_t ended = ncclGroupEnd();
  under_way = true;
  return sentence_of(code != ncclSuccess ? code : ended);
}

const char* poll(bool* done) {
  *done = !under_way;
  if (*done) return nullptr;
  bool started = false;
  if (const char* failure = look(&started)) return failure;
  if (!started) return nullptr;
  const cudaError_t code = cudaStreamQuery(stream);
  if (code == cudaErrorNotReady) return nullptr;
  const char* failure = sentence_of(code);
  if (failure == nullptr) failure = copy(received, cudaMemcpyDeviceToHost);
  if (failure == nullptr) failure = sentence_of(cudaStreamSynchronize(stream));
  under_way = false;
  *done = failure == nullptr;
  return failure;
}

// ---- The end -----------------------------------------------------------------------------------

void leave() {
  if (communicator == nullptr) return;
  const double began = seconds();
  bool done = false;
  const char* failure = sentence_of(ncclCommFinalize(communicator));
  while (failure == nullptr && !done && seconds() - began < kLeaveDeadline) {
    failure = look(&done);
    if (!done) pause_for(0.001);
  }
  if (failure == nullptr && done) {
    ncclCommDestroy(communicator);
    communicator = nullptr;
  }
  give_up();
}

// NCCL cannot end other processes. Launchers do, but MPICH's only of one that a signal ended.
void abort_all(int) {
  std::fflush(nullptr);
  std::raise(SIGKILL);
}

const char* library_name() {
  static const std::string name = [] {
    int version = 0;
    ncclGetVersion(&version);
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }();
  return name.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* fovea_team_module(int version) {
  static const Module module{.library = library_name(),
                             .join = join,
                             .begin = begin,
                             .poll = poll,
                             .has_come = nullptr,
                             .leave = leave,
                             .abort = abort_all};
  return version == fovea::team::kModuleVersion ? &module : nullptr;
}
