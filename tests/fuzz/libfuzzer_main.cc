// One target as a libFuzzer program; PREFIX_FUZZ_RUN is its function.
#include "target.h"

namespace prefix::fuzz {
void PREFIX_FUZZ_RUN(Input input);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prefix::fuzz::PREFIX_FUZZ_RUN({data, size});
  return 0;
}
