// How the processor computes with floating point is a setting of each thread, which a new thread
// takes over from the one that starts it.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#else
#include <cfenv>
#endif

namespace prefix {

// While it lives, this thread rounds to the nearest, keeps denormal numbers, and goes on after what
// is no number, whatever its owner has set: results must not depend on a host that rounds upwards,
// and a NaN must not end one that has such operations trapped. On x86-64 that is two registers: the
// library computes by one, and the C library reads and writes decimal numbers as the other rounds.
class PlainFloats {
 public:
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;
#if defined(__x86_64__)
  PlainFloats() : before_(_mm_getcsr()) {
    asm volatile("fnstcw %0" : "=m"(x87_before_));
    if ((before_ & ~kFlags) != kPlain) _mm_setcsr(kPlain);
    if ((x87_before_ & kX87Settings) != kX87Plain) set_x87(kX87Plain);
  }
  ~PlainFloats() {
    if ((before_ & ~kFlags) != kPlain) _mm_setcsr(before_);
    if ((x87_before_ & kX87Settings) != kX87Plain) set_x87(x87_before_);
  }

 private:
  static void set_x87(uint16_t control) { asm volatile("fldcw %0" : : "m"(control)); }

  // Plain is as a program starts.
  static constexpr unsigned kFlags = 0x3f;  // of what happened
  static constexpr unsigned kPlain = 0x1f80;
  static constexpr uint16_t kX87Settings = 0x0f7f;  // the other bits say nothing
  static constexpr uint16_t kX87Plain = 0x037f;
  const unsigned before_;
  uint16_t x87_before_;
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
