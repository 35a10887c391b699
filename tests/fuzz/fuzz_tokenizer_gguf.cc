// The tokenizer of a GGUF file.
#include "memory_file.h"
#include "text_support.h"

namespace prefix::fuzz {

void run_tokenizer_gguf(Input input) {
  // Anything else is a tokenizer.json, which has a target of its own.
  if (!text_of(input).starts_with("GGUF")) return;
  static MemoryFile file;
  file.write(bytes_of(input));
  const std::string path = file.path();
  prefix_tokenizer* handle = nullptr;
  prefix_error error = no_error();
  const prefix_status status = prefix_tokenizer_open(path.data(), path.size(), &handle, &error);
  KEEP(status != PREFIX_ERR_INTERNAL && status != PREFIX_ERR_IO);
  if (const Tokenizer tokenizer(handle); tokenizer) use(tokenizer.get());
}

}  // namespace prefix::fuzz
