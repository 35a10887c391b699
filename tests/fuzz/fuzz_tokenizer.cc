// tokenizer.json, and what such a tokenizer does.
#include "text_support.h"

namespace prefix::fuzz {

void run_tokenizer(Input input) {
  if (const Tokenizer tokenizer = from_json(text_of(input), {})) use(tokenizer.get());
}

}  // namespace prefix::fuzz
