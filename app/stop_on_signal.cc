#include "app/stop_on_signal.h"

#include <pthread.h>
#include <unistd.h>

namespace fovea::app {
namespace {

bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

// A shell that starts a program in the background has it ignore SIGINT; who sends one nevertheless
// means it. nohup's wish about SIGHUP is kept.
StopOnSignal::StopOnSignal() {
  sigemptyset(&signals_);
  for (const int number : {SIGINT, SIGTERM}) {
    std::signal(number, SIG_DFL);
    sigaddset(&signals_, number);
  }
  if (!is_ignored(SIGHUP)) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
  waiting_ = std::thread([this] { wait(); });
}

StopOnSignal::~StopOnSignal() {
  over_ = true;
  pthread_kill(waiting_.native_handle(), SIGTERM);
  waiting_.join();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void StopOnSignal::wait() {
  for (int number = 0; sigwait(&signals_, &number) == 0 && !over_;) {
    if (asked_.exchange(true)) ::_exit(128 + number);
  }
}

}  // namespace fovea::app
