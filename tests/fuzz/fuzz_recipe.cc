// A recipe of a task, and the prompts that it makes.
#include "large_stack.h"
#include "text_support.h"

extern "C" prefix_status prefix_fuzz_recipe(const prefix_tokenizer* tokenizer, const char* recipe,
                                            size_t recipe_len, prefix_error* err);

namespace prefix::fuzz {
namespace {

void build(Input input) {
  static const Tokenizer tokenizer = from_json(
      small_tokenizer(),
      R"({"bos_token":"<s>","chat_template":"{% for m in messages %}<s>{{ m.role }}: )"
      R"({{ m.content }}</s>{% endfor %}{{ x }}{% if add_generation_prompt %}<s>{% endif %}"})");
  KEEP(tokenizer);
  const std::string_view text = text_of(input);
  prefix_error error = no_error();
  const prefix_status status =
      prefix_fuzz_recipe(tokenizer.get(), text.data(), text.size(), &error);
  KEEP(status != PREFIX_ERR_INTERNAL);
}

}  // namespace

void run_recipe(Input input) {
  LargeStack::get().run([&] { build(input); });
}

}  // namespace prefix::fuzz
