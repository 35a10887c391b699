/* chat - a conversation of several turns; each turn finds the ones before it in the cache. */
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static const char* kHelp =
    "usage: chat MODEL [--system TEXT] [--max-tokens N] [--json]\n"
    "\n"
    "Reads one message a line from standard input and answers each as it is generated. After "
    "every\n"
    "answer it says how many tokens of the conversation came from the cache.\n"
    "\n"
    "  printf 'What is bread made of?\\nAnd cake?\\n' | chat model.gguf\n";

/* Adds a message to the conversation, a JSON array that is not closed yet. */
static void say(sample_string* messages, const char* role, const char* text, size_t length) {
  char* message = NULL;
  size_t message_length = 0;
  FILE* memory = open_memstream(&message, &message_length);
  if (memory == NULL) sample_usage("there is no memory for the conversation");
  fprintf(memory, "%s{\"role\":\"%s\",\"content\":", messages->length ? "," : "[", role);
  sample_json_string(memory, text, length);
  fputc('}', memory);
  fclose(memory);
  sample_append(messages, message, message_length);
  free(message);
}

/* The next message, shown as it is written. */
static sample_string answer(prefix_task* task, int show) {
  prefix_event event = PREFIX_EVENT_INIT;
  sample_string text = {NULL, 0, 0}, piece = {NULL, 0, 0};
  while (sample_next(task, &event, &piece)) {
    if (event.kind != PREFIX_EVENT_TEXT) continue;
    sample_append(&text, piece.bytes, piece.length);
    if (show) fwrite(piece.bytes, 1, piece.length, stdout), fflush(stdout);
  }
  free(piece.bytes);
  return text;
}

static void turn(prefix_engine* engine, prefix_tokenizer* tokenizer, prefix_options* options,
                 sample_string* messages, int json) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_task* task = NULL;
  prefix_result_info info = PREFIX_RESULT_INFO_INIT;
  sample_string whole = {NULL, 0, 0};
  sample_append(&whole, messages->bytes, messages->length);
  sample_append(&whole, "]", 1);
  const char* const conversation = whole.bytes;
  if (prefix_task_create(engine, tokenizer, "chat", PREFIX_NUL, options, &task, &err) !=
          PREFIX_OK ||
      prefix_task_add(task, &conversation, &whole.length, 1, 0, NULL, &err) != PREFIX_OK ||
      prefix_task_submit(task, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_string text = answer(task, !json);
  /* A message that failed says why where its text is asked for. */
  if (prefix_task_item_text(task, 0, NULL, 0, NULL, &err) != PREFIX_OK ||
      prefix_task_item_info(task, 0, &info, &err) != PREFIX_OK)
    sample_fail(&err);
  say(messages, "assistant", text.bytes, text.length);
  const double seconds = (double)info.total_us * 1e-6;
  if (json) {
    printf("{\"answer\":");
    sample_json_string(stdout, text.bytes, text.length);
    printf(",\"prompt\":%lld,\"cached\":%lld,\"generated\":%lld,\"seconds\":%.6f}\n",
           (long long)info.prompt_tokens, (long long)info.cached_tokens,
           (long long)info.generated_tokens, seconds);
  } else {
    printf("\n  [%lld tokens, %lld of them from the cache, %lld generated, %.2f s]\n",
           (long long)info.prompt_tokens, (long long)info.cached_tokens,
           (long long)info.generated_tokens, seconds);
  }
  fflush(stdout);
  free(text.bytes);
  free(whole.bytes);
  prefix_task_release(task);
}

int main(int argc, char** argv) {
  sample_name = "chat";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* system = sample_option(&argc, argv, "--system", 0);
  const char* max_tokens = sample_option(&argc, argv, "--max-tokens", 0);
  sample_no_more_options(argc, argv);
  if (argc != 2) sample_usage("MODEL is needed");

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_options* options = sample_options(NULL, "max_tokens", max_tokens ? max_tokens : "128");
  if (prefix_options_set_bool(options, "stream", PREFIX_NUL, 1, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_open(argv[1], &engine, &tokenizer);
  sample_string messages = {NULL, 0, 0};
  if (system) say(&messages, "system", system, strlen(system));

  char* line = NULL;
  size_t room = 0;
  ssize_t length;
  while ((length = getline(&line, &room, stdin)) >= 0) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) --length;
    if (length == 0) continue;
    if (!json) printf("> %.*s\n", (int)length, line);
    say(&messages, "user", line, (size_t)length);
    turn(engine, tokenizer, options, &messages, json);
  }
  free(line);
  free(messages.bytes);
  prefix_options_release(options);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return 0;
}
