#include "core/interrupt.h"

#include <utility>

namespace fovea {
namespace {

thread_local const Interruptible* innermost = nullptr;

}  // namespace

Interruptible::Interruptible(std::function<void()> ask)
    : ask_(std::move(ask)), before_(std::exchange(innermost, this)) {}

Interruptible::~Interruptible() { innermost = before_; }

void ask_to_go_on() {
  if (innermost != nullptr) innermost->ask_();
}

}  // namespace fovea
