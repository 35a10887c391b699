// What a generated text must look like: a JSON schema, a regular expression or a grammar, and texts by it. The input:
// which of them, 16 bytes that choose what comes next, and the text.
#include "large_stack.h"
#include "text_support.h"

extern "C" prefix_status prefix_fuzz_constraint(const uint8_t* input, size_t input_len,
                                                prefix_error* err);

namespace prefix::fuzz {

void run_constraint(Input input) {
  LargeStack::get().run([&] {
    prefix_error error = no_error();
    const prefix_status status = prefix_fuzz_constraint(input.data(), input.size(), &error);
    KEEP(status != PREFIX_ERR_INTERNAL);
  });
}

}  // namespace prefix::fuzz
