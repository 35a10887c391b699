#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prefix::fuzz::config({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
