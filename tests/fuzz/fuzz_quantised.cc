#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_quantised(Input input) { quantised(bytes_of(input)); }

}  // namespace prefix::fuzz
