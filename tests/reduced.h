#pragma once

namespace fovea::test {

// Whether these are tests for another processor than the one at work.
constexpr bool emulated() {
#ifdef FOVEA_EMULATED
  return true;
#else
  return false;
#endif
}

// Sanitizers make everything several times slower, an emulator more than ten times: smaller sizes
// will do there.
constexpr bool reduced() {
#if defined(FOVEA_EMULATED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

}  // namespace fovea::test
