// Whether the program that runs has a sanitizer in it, which keeps freed memory for a while and
// reserves terabytes of addresses. Not a question for the compiler of a test: tests/CMakeLists.txt.
#pragma once

#include <dlfcn.h>

namespace prefix::testing_support {

inline bool is_sanitized() {
  return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");
}

}  // namespace prefix::testing_support
