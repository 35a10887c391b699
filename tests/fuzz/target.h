// What the targets of this folder share. A target is one parser of bytes that come from outside,
// with what must hold whatever they are:
//
//   run_NAME(input)   takes any bytes; ends the process (KEEP, or a sanitizer) when something does
//                     not hold, and returns otherwise
//
// libfuzzer_main.cc makes a fuzzer of each; corpus_test.cc runs all of them over the inputs in
// corpus/, with any compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace prefix::fuzz {

using Input = std::span<const uint8_t>;

// Something that must hold does not: a finding.
#define KEEP(condition)                                                                  \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (0)

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

inline std::span<const std::byte> bytes_of(Input input) { return std::as_bytes(input); }

// Numbers and pieces from the front of an input; zeros and nothing at its end.
class Taker {
 public:
  explicit Taker(Input input) : left_(input) {}

  uint8_t byte() {
    const Input one = bytes(1);
    return one.empty() ? 0 : one[0];
  }
  uint16_t two_bytes() {
    const uint8_t low = byte();
    return static_cast<uint16_t>(low | byte() << 8);
  }
  Input bytes(size_t most) {
    const Input piece = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(piece.size());
    return piece;
  }
  // Up to the next line end, which goes too.
  std::string_view line() {
    const std::string_view text = text_of(left_);
    const size_t end = text.find('\n');
    bytes(end == text.npos ? text.size() : end + 1);
    return text.substr(0, end);
  }
  Input rest() { return bytes(left_.size()); }
  bool empty() const { return left_.empty(); }

 private:
  Input left_;
};

}  // namespace prefix::fuzz
