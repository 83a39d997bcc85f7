#pragma once

namespace fovea::test {

// Sanitizers make everything several times slower: smaller sizes will do there.
constexpr bool reduced() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

}  // namespace fovea::test
