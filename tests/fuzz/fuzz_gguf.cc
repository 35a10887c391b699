#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_gguf(Input input) { gguf(bytes_of(input)); }

}  // namespace prefix::fuzz
