#include "adapter_target.h"

namespace prefix::fuzz {

void run_adapter(Input input) { adapter(bytes_of(input)); }

}  // namespace prefix::fuzz
