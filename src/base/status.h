// Status codes and the one error type of the library.
//
// Inside libprefix an operation that cannot be done throws Error; the C entry points (src/abi)
// turn it into a prefix_status and a message. A message names the value that was wrong and the
// limit it broke. Errors that belong to one request are caught by the engine and stored with it.
#pragma once

#include <cstdint>
#include <exception>
#include <locale>
#include <new>
#include <sstream>
#include <string>
#include <utility>

namespace prefix {

// The same numbers as PREFIX_OK / PREFIX_ERR_* in include/prefix.h (asserted in src/abi).
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 100,
  kInvalidUtf8 = 101,
  kUnknownOption = 102,
  kOutOfRange = 103,
  kStructTooOld = 104,
  kBufferTooSmall = 105,
  kMisuse = 200,
  kForked = 201,
  kNotFound = 300,
  kIo = 301,
  kFormat = 400,
  kUnsupportedModel = 401,
  kUnsupportedDevice = 402,
  kIncompatibleSnapshot = 403,
  kPromptTooLong = 500,
  kNotFinite = 501,
  kOutOfMemory = 600,
  kOutOfDeviceMemory = 601,
  kCacheFull = 602,
  kQueueFull = 700,
  kTimeout = 701,
  kCancelled = 702,
  kDeadline = 703,
  kDeviceLost = 800,
  kEngineFailed = 801,
  kNoEvent = 900,
  kInternal = 1000,
};

// Joins its arguments as an ostream would print them: cat("page ", 3, " of ", 7). Numbers are those
// of C, whatever the locale of the host: "2,048" is no value of an option, and no JSON.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  if (!out) throw std::bad_alloc();  // a stream keeps quiet about it, and would give half the text
  return std::move(out).str();
}

class Error : public std::exception {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
};

template <typename... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

// An invariant of the library itself; a failure is a bug and is reported as kInternal.
#define PREFIX_CHECK(condition)                                                                   \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::prefix::fail(::prefix::Code::kInternal, "invariant failed: " #condition " at ", __FILE__, \
                     ":", __LINE__);                                                              \
  } while (0)

}  // namespace prefix
