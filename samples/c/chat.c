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

/* The conversation as a JSON array that is not closed yet. */
static char* messages;
static size_t messages_length;

static void say(const char* role, const char* text, size_t length) {
  char* out = NULL;
  size_t out_length = 0;
  FILE* memory = open_memstream(&out, &out_length);
  if (memory == NULL) sample_usage("there is no memory for the conversation");
  fprintf(memory, "%.*s%s{\"role\":\"%s\",\"content\":", (int)messages_length,
          messages ? messages : "", messages ? "," : "[", role);
  sample_json_string(memory, text, length);
  fputc('}', memory);
  fclose(memory);
  free(messages);
  messages = out;
  messages_length = out_length;
}

/* Prints the text of the answer as its tokens come; returns all of it. */
static char* stream(prefix_job* job, prefix_tokenizer* tokenizer, int show, size_t* length) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_event event = PREFIX_EVENT_INIT;
  prefix_detok* detok = NULL;
  char* answer = NULL;
  FILE* memory = open_memstream(&answer, length);
  char piece[4096];
  size_t n = 0;
  prefix_status status;
  if (memory == NULL) sample_usage("there is no memory for the answer");
  if (prefix_detok_create(tokenizer, PREFIX_DECODE_SKIP_SPECIAL, &detok, &err) != PREFIX_OK)
    sample_fail(&err);
  while ((status = prefix_job_next_event(job, -1, &event, &err)) == PREFIX_OK) {
    if (event.kind != PREFIX_EVENT_TOKEN) continue;
    if (prefix_detok_push(detok, &event.token, 1, piece, sizeof(piece), &n, &err) != PREFIX_OK)
      sample_fail(&err);
    fwrite(piece, 1, n, memory);
    if (show) fwrite(piece, 1, n, stdout), fflush(stdout);
  }
  if (status != PREFIX_ERR_NO_EVENT) sample_fail(&err);
  if (prefix_detok_flush(detok, piece, sizeof(piece), &n, &err) != PREFIX_OK) sample_fail(&err);
  fwrite(piece, 1, n, memory);
  if (show) fwrite(piece, 1, n, stdout);
  fclose(memory);
  prefix_detok_release(detok);
  return answer;
}

static void turn(prefix_engine* engine, prefix_tokenizer* tokenizer, prefix_options* options,
                 int json) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_batch* batch = NULL;
  prefix_job* job = NULL;
  prefix_result_info info = PREFIX_RESULT_INFO_INIT;
  size_t n = 0, length = 0;
  char* whole = malloc(messages_length + 2);
  if (whole == NULL) sample_usage("there is no memory for the conversation");
  memcpy(whole, messages, messages_length);
  memcpy(whole + messages_length, "]", 2);
  if (prefix_tokenizer_chat_tokens(tokenizer, whole, PREFIX_NUL, NULL, 0, NULL, 0, &n, NULL, 0,
                                   &err) != PREFIX_OK)
    sample_fail(&err);
  prefix_token* tokens = calloc(n, sizeof(*tokens));
  if (tokens == NULL) sample_usage("there is no memory for the tokens");
  if (prefix_tokenizer_chat_tokens(tokenizer, whole, PREFIX_NUL, NULL, 0, tokens, n, &n, NULL, 0,
                                   &err) != PREFIX_OK ||
      prefix_batch_create(engine, &batch, &err) != PREFIX_OK ||
      prefix_batch_add_generate(batch, tokens, n, options, 0, NULL, &err) != PREFIX_OK ||
      prefix_submit(engine, batch, &job, &err) != PREFIX_OK)
    sample_fail(&err);
  char* answer = stream(job, tokenizer, !json, &length);
  if (prefix_job_result_info(job, 0, &info, &err) != PREFIX_OK) sample_fail(&err);
  if (prefix_job_first_failure(job, NULL, &err) != PREFIX_OK) sample_fail(&err);
  say("assistant", answer, length);
  if (json) {
    printf("{\"answer\":");
    sample_json_string(stdout, answer, length);
    printf(",\"prompt\":%lld,\"cached\":%lld,\"generated\":%lld,\"seconds\":%.6f}\n",
           (long long)info.prompt_tokens, (long long)info.cached_tokens,
           (long long)info.generated_tokens, (double)info.total_us * 1e-6);
  } else {
    printf("\n  [%lld tokens, %lld of them from the cache, %lld generated, %.2f s]\n",
           (long long)info.prompt_tokens, (long long)info.cached_tokens,
           (long long)info.generated_tokens, (double)info.total_us * 1e-6);
  }
  fflush(stdout);
  free(answer);
  free(tokens);
  free(whole);
  prefix_job_release(job);
  prefix_batch_release(batch);
}

/* All tokens at which an answer is over, as the option takes them. */
static prefix_options* make_options(prefix_tokenizer* tokenizer, int max_tokens) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_options* options = NULL;
  prefix_token ends[64];
  size_t n = 0;
  if (prefix_tokenizer_end_tokens(tokenizer, ends, 64, &n, &err) != PREFIX_OK ||
      prefix_options_create(&options, &err) != PREFIX_OK ||
      prefix_options_set_ints(options, "stop_tokens", PREFIX_NUL, ends, n, &err) != PREFIX_OK ||
      prefix_options_set_int(options, "max_tokens", PREFIX_NUL, max_tokens, &err) != PREFIX_OK)
    sample_fail(&err);
  return options;
}

int main(int argc, char** argv) {
  sample_name = "chat";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* system = sample_option(&argc, argv, "--system", 0);
  const char* max_tokens = sample_option(&argc, argv, "--max-tokens", 0);
  sample_no_more_options(argc, argv);
  if (argc != 2) sample_usage("MODEL is needed");

  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  sample_open(argv[1], &engine, &tokenizer);
  prefix_options* options = make_options(tokenizer, max_tokens ? atoi(max_tokens) : 128);
  if (system) say("system", system, strlen(system));

  char* line = NULL;
  size_t room = 0;
  ssize_t length;
  while ((length = getline(&line, &room, stdin)) >= 0) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) --length;
    if (length == 0) continue;
    if (!json) printf("> %.*s\n", (int)length, line);
    say("user", line, (size_t)length);
    turn(engine, tokenizer, options, json);
  }
  free(line);
  free(messages);
  prefix_options_release(options);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return 0;
}
