#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_config(Input input) { config(bytes_of(input)); }

}  // namespace prefix::fuzz
