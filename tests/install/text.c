/* Linked to both libraries. */
#include <prefix_text.h>
#include <stdio.h>

int main(void) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_tokenizer* tokenizer = NULL;
  const prefix_status status = prefix_tokenizer_open("/absent", PREFIX_NUL, &tokenizer, &err);
  printf("libprefix_text %s with libprefix %s, %d recipes: %s\n", prefix_text_version_string(),
         prefix_version_string(), (int)prefix_recipe_count(), prefix_status_name(status));
  return status == PREFIX_ERR_NOT_FOUND ? 0 : 1;
}
