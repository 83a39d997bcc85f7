#include "team/module.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using fovea::team::Message;
using fovea::team::Module;

constexpr size_t kPiece = size_t{1} << 30;  // bytes: MPI counts by int

struct Pieces {
  std::vector<MPI_Request> requests;
  std::vector<size_t> begin;  // of each message, the index of its first request, and their end
};
Pieces sent, received;

// Messages between two ranks keep their order, so that one tag serves all; who waits tells so by
// another, with the number of what it waits for.
enum Tag : int { kData, kWaiting };
int64_t under_way = 0;
std::vector<int64_t> told;  // by rank: the last that it told

const char* sentence_of(int code) {
  static char text[MPI_MAX_ERROR_STRING + 1];
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "an MPI call failed";
  text[length] = '\0';
  return text;
}

const char* join(int* rank, int* size) {
  int given = 0;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(MPI_COMM_WORLD, size);
  return sentence_of(code);
}

template <class Start>
int start(Pieces& pieces, const Message* messages, size_t n, const Start& start_one) {
  pieces.requests.clear();
  pieces.begin.assign(1, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t at = 0; at < messages[i].size; at += kPiece) {
      const int bytes = static_cast<int>(std::min(kPiece, messages[i].size - at));
      MPI_Request request = MPI_REQUEST_NULL;
      const int code =
          start_one(static_cast<char*>(messages[i].bytes) + at, bytes, messages[i].peer, &request);
      if (code != MPI_SUCCESS) return code;
      pieces.requests.push_back(request);
    }
    pieces.begin.push_back(pieces.requests.size());
  }
  return MPI_SUCCESS;
}

const char* begin(const Message* to_send, size_t n_sent, const Message* to_receive,
                  size_t n_received) {
  ++under_way;
  int code = start(received, to_receive, n_received,
                   [](void* bytes, int n, int peer, MPI_Request* request) {
                     return MPI_Irecv(bytes, n, MPI_BYTE, peer, kData, MPI_COMM_WORLD, request);
                   });
  if (code == MPI_SUCCESS) {
    code = start(sent, to_send, n_sent, [](void* bytes, int n, int peer, MPI_Request* request) {
      return MPI_Isend(bytes, n, MPI_BYTE, peer, kData, MPI_COMM_WORLD, request);
    });
  }
  return sentence_of(code);
}

int test(Pieces& pieces, bool* done) {
  int flag = 0;
  const int code = MPI_Testall(static_cast<int>(pieces.requests.size()), pieces.requests.data(),
                               &flag, MPI_STATUSES_IGNORE);
  *done = flag != 0;
  return code;
}

const char* poll(bool* done) {
  bool all_sent = false, all_received = false;
  int code = test(received, &all_received);
  if (code == MPI_SUCCESS) code = test(sent, &all_sent);
  *done = all_sent && all_received;
  return sentence_of(code);
}

bool is_done(const Pieces& pieces, size_t message) {
  for (size_t i = pieces.begin[message]; i < pieces.begin[message + 1]; ++i) {
    int flag = 0;
    if (MPI_Request_get_status(pieces.requests[i], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        flag == 0) {
      return false;
    }
  }
  return true;
}

bool has_come(size_t message) { return is_done(received, message); }
bool has_gone(size_t message) { return is_done(sent, message); }

void tell_waiting() {
  static int64_t number;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  number = under_way;
  for (int r = 0; r < size; ++r) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (r != rank &&
        MPI_Isend(&number, 1, MPI_INT64_T, r, kWaiting, MPI_COMM_WORLD, &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

void hear_who_waits() {
  int size = 0, there = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  told.resize(static_cast<size_t>(size));
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, kWaiting, MPI_COMM_WORLD, &there, &status) == MPI_SUCCESS &&
         there != 0) {
    int64_t number = 0;
    if (MPI_Recv(&number, 1, MPI_INT64_T, status.MPI_SOURCE, kWaiting, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    told[static_cast<size_t>(status.MPI_SOURCE)] = number;
  }
}

// It may be one behind: what it waits for need not be what this rank waits for.
bool waits(int rank) {
  hear_who_waits();
  return told[static_cast<size_t>(rank)] >= std::max<int64_t>(1, under_way - 1);
}

void leave() {
  hear_who_waits();
  MPI_Finalize();
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const char* library_name() {
  static const std::string name = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    return std::string(
        text, std::find_if(text, text + length, [](char c) { return c == ',' || c == '\n'; }));
  }();
  return name.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* fovea_team_module(int version) {
  static const Module module{.library = library_name(),
                             .join = join,
                             .begin = begin,
                             .poll = poll,
                             .has_come = has_come,
                             .has_gone = has_gone,
                             .tell_waiting = tell_waiting,
                             .waits = waits,
                             .leave = leave,
                             .abort = abort_all};
  return version == fovea::team::kModuleVersion ? &module : nullptr;
}
