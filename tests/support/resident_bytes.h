// Memory of the process that is not a file's.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace prefix::testing_support {

inline int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kib;
    if (key == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace prefix::testing_support
