#pragma once

namespace mobicuda::test {

/// Whether AddressSanitizer or ThreadSanitizer watches this program, which takes several times as long: what only grows
/// with the amount of data is given less of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// Whether it is ThreadSanitizer, which can find nothing in what a single thread does.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#else
inline constexpr bool kThreadSanitized = false;
#endif

/// How often to repeat what a single thread does with other numbers: a tenth as often under ThreadSanitizer.
template <class Count>
constexpr Count on_one_thread(Count count) {
  return kThreadSanitized ? (count + 9) / 10 : count;
}

}  // namespace mobicuda::test
