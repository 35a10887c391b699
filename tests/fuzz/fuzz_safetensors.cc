#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_safetensors(Input input) { safetensors(bytes_of(input)); }

}  // namespace prefix::fuzz
