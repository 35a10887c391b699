#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_packed(Input input) { packed(bytes_of(input)); }

}  // namespace prefix::fuzz
