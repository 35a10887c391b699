/* The same for libprefix_text.so: frozen_text MODEL, a model that reads text. */
#include <prefix_text.h>

#include "frozen.h"

#if PREFIX_TEXT_ABI_VERSION != FROZEN
#error "another prefix_text.h than the frozen one"
#endif

static void tokenizing(const prefix_tokenizer* tokenizer) {
  DECLARE(prefix_error, err);
  prefix_detok* detok = NULL;
  prefix_token tokens[64], token;
  char text[256];
  size_t n = 0, length = 0;
  int64_t size = 0;
  OK(prefix_tokenizer_vocab_size(tokenizer, &size, &err.it));
  CHECK(size > 0);
  OK(prefix_tokenizer_encode(tokenizer, "the cat", PREFIX_NUL, 0, tokens, 64, &n, &err.it));
  CHECK(n > 0);
  OK(prefix_tokenizer_decode(tokenizer, tokens, n, 0, text, sizeof(text), &length, &err.it));
  CHECK(length == strlen(text) && length > 0);
  OK(prefix_detok_create(tokenizer, PREFIX_DECODE_SKIP_SPECIAL, &detok, &err.it));
  OK(prefix_detok_push(detok, tokens, n, text, sizeof(text), &length, &err.it));
  OK(prefix_detok_flush(detok, text, sizeof(text), &length, &err.it));
  prefix_detok_release(detok);
  CHECK(prefix_tokenizer_token_id(tokenizer, "no such token", PREFIX_NUL, &token, &err.it) ==
        PREFIX_ERR_NOT_FOUND);
  CHECK(err.it.code == PREFIX_ERR_NOT_FOUND && err.it.message[0] != 0);
  CHECK(strcmp(err.it.domain, "prefix_tokenizer_token_id") == 0);
  CHECK_BEHIND(err);
}

static void recipes(void) {
  static char json[16384];
  DECLARE(prefix_error, err);
  size_t i, needed = 0;
  CHECK(prefix_recipe_count() > 0);
  for (i = 0; i < prefix_recipe_count(); ++i) {
    OK(prefix_recipe_json(prefix_recipe_name(i), PREFIX_NUL, json, sizeof(json), &needed, &err.it));
    CHECK(needed == strlen(json) && json[0] == '{');
  }
  CHECK(prefix_recipe_name(i) == NULL);
}

static void ranking(prefix_engine* engine, const prefix_tokenizer* tokenizer) {
  static const char* const query[] = {"cat"};
  static const char* const documents[] = {"the cat sat", "the dog ran"};
  DECLARE(prefix_error, err);
  DECLARE(prefix_event, event);
  DECLARE(prefix_result_info, item);
  DECLARE(prefix_job_totals, totals);
  prefix_task* task = NULL;
  float scores[2], best[2];
  int64_t order[2];
  int32_t statuses[2];
  size_t needed = 0, first = 9, count = 0, width = 0;
  OK(prefix_task_create(engine, tokenizer, "rerank", PREFIX_NUL, NULL, &task, &err.it));
  OK(prefix_task_add_product(task, query, NULL, 1, documents, NULL, 2, 7, &first, &err.it));
  OK(prefix_task_count(task, &count, &err.it));
  CHECK(first == 0 && count == 2);
  OK(prefix_task_submit(task, &err.it));
  OK(prefix_task_wait(task, -1, &err.it));
  OK(prefix_task_next_event(task, 0, &event.it, NULL, 0, &needed, &err.it));
  CHECK(event.it.kind == PREFIX_EVENT_FINISHED && event.it.user_tag == 7);
  CHECK_BEHIND(event);
  OK(prefix_task_width(task, &width, &err.it));
  OK(prefix_task_all_values(task, scores, 2, &needed, &err.it));
  CHECK(width == 1 && needed == 2);
  OK(prefix_task_ranking(task, 0, 2, order, 2, &needed, best, 2, &err.it));
  CHECK(needed == 2 && best[0] == scores[order[0]] && best[0] >= best[1]);
  OK(prefix_task_statuses(task, statuses, 2, &needed, &err.it));
  CHECK(needed == 2 && statuses[0] == PREFIX_OK && statuses[1] == PREFIX_OK);
  OK(prefix_task_item_info(task, 1, &item.it, &err.it));
  CHECK(item.it.status == PREFIX_OK && item.it.prompt_tokens > 0 && item.it.user_tag == 7);
  CHECK_BEHIND(item);
  OK(prefix_task_get_totals(task, &totals.it, &err.it));
  CHECK(totals.it.requests == 2 && totals.it.failed == 0);
  CHECK_BEHIND(totals);
  prefix_task_release(task);
}

int main(int argc, char** argv) {
  DECLARE(prefix_error, err);
  prefix_options* options = NULL;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  CHECK(argc == 2);
  CHECK(prefix_text_abi_version() >= PREFIX_TEXT_ABI_VERSION);
  CHECK(prefix_text_version_string()[0] != 0);
  recipes();
  OK(prefix_tokenizer_open(argv[1], PREFIX_NUL, &tokenizer, &err.it));
  tokenizing(tokenizer);
  OK(prefix_options_create(&options, &err.it));
  OK(prefix_options_set(options, "cache_bytes", PREFIX_NUL, "16M", PREFIX_NUL, &err.it));
  OK(prefix_engine_create(argv[1], PREFIX_NUL, options, &engine, &err.it));
  ranking(engine, tokenizer);
  prefix_options_release(options);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return 0;
}
