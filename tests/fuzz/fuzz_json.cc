#include "fuzz/targets.h"
#include "target.h"

namespace prefix::fuzz {

void run_json(Input input) { json(bytes_of(input)); }

}  // namespace prefix::fuzz
