// How the processor computes with floating point is a setting of each thread, which a new thread
// takes over from the one that starts it.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace prefix {

// While it lives, this thread rounds to the nearest, keeps denormal numbers, and goes on after what
// is no number, whatever its owner has set: results must not depend on a host that rounds upwards,
// and a NaN must not end one that has such operations trapped.
class PlainFloats {
 public:
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;
#if defined(__x86_64__)
  PlainFloats() : before_(_mm_getcsr()) {
    if ((before_ & ~kFlags) != kPlain) _mm_setcsr(kPlain);
  }
  ~PlainFloats() {
    if ((before_ & ~kFlags) != kPlain) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kFlags = 0x3f;    // of what happened
  static constexpr unsigned kPlain = 0x1f80;  // as a program starts
  const unsigned before_;
#else
  PlainFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainFloats() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
#endif
};

}  // namespace prefix
