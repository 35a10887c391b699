/* qa - many questions about one text, answered together. */
#include <stdlib.h>

#include "sample.h"

static const char* kHelp =
    "usage: qa MODEL FILE QUESTION... [--recipe NAME] [--max-tokens N] [--json]\n"
    "\n"
    "Answers every QUESTION from the text in FILE (\"-\": standard input). The text is computed "
    "once for\n"
    "all questions, and each answer is shown while it is written. NAME is a shipped recipe\n"
    "(question-answering, extractive-qa) or a file.\n"
    "\n"
    "  qa model.gguf notes.txt 'Who wrote this?' 'When?'\n";

/* An answer as far as it has come. */
typedef struct answer {
  sample_string text;
  size_t shown; /* bytes of it on the screen */
  int ended;
} answer;

/* They come at the same time; they are shown one after the other: the first as it is written, the
 * next one when that has ended. Returns the number of the one that is written on the screen. */
static size_t show(answer* answers, char** questions, size_t count, size_t current) {
  for (; current < count; ++current) {
    answer* a = &answers[current];
    if (a->shown == 0 && (a->text.length > 0 || a->ended)) printf("Q  %s\nA  ", questions[current]);
    if (a->text.length > a->shown)
      fwrite(a->text.bytes + a->shown, 1, a->text.length - a->shown, stdout);
    a->shown = a->text.length;
    if (!a->ended) break;
    putchar('\n');
  }
  fflush(stdout);
  return current;
}

static void follow(prefix_task* task, answer* answers, char** questions, size_t count, int json) {
  prefix_event event = PREFIX_EVENT_INIT;
  sample_string piece = {NULL, 0, 0};
  size_t current = 0;
  while (sample_next(task, &event, &piece)) {
    answer* a = &answers[event.request];
    if (event.kind == PREFIX_EVENT_TEXT) sample_append(&a->text, piece.bytes, piece.length);
    if (event.kind == PREFIX_EVENT_FINISHED || event.kind == PREFIX_EVENT_ERROR) a->ended = 1;
    if (event.kind == PREFIX_EVENT_ERROR) {
      prefix_error err = PREFIX_ERROR_INIT;
      prefix_task_item_text(task, (size_t)event.request, NULL, 0, NULL, &err);
      fprintf(stderr, "%s: %s: %s\n", sample_name, questions[event.request], err.message);
    }
    if (!json) current = show(answers, questions, count, current);
  }
  free(piece.bytes);
}

int main(int argc, char** argv) {
  sample_name = "qa";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* recipe = sample_option(&argc, argv, "--recipe", 0);
  const char* max_tokens = sample_option(&argc, argv, "--max-tokens", 0);
  sample_no_more_options(argc, argv);
  if (argc < 4) sample_usage("MODEL, FILE and at least one QUESTION are needed");

  char** questions = argv + 3;
  const size_t count = (size_t)argc - 3;
  sample_texts context = sample_file(argv[2]);
  answer* answers = calloc(count, sizeof(*answers));
  if (answers == NULL) sample_usage("there is no memory for the answers");

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_task* task = NULL;
  prefix_job_totals totals = PREFIX_JOB_TOTALS_INIT;
  prefix_options* options = sample_options(recipe, "max_tokens", max_tokens);
  sample_open(argv[1], &engine, &tokenizer);
  if (prefix_options_set_bool(options, "stream", PREFIX_NUL, 1, &err) != PREFIX_OK ||
      prefix_task_create(engine, tokenizer, "answer", PREFIX_NUL, options, &task, &err) !=
          PREFIX_OK ||
      prefix_task_add_product(task, context.texts, context.lengths, 1,
                              (const char* const*)questions, NULL, count, 0, NULL,
                              &err) != PREFIX_OK ||
      prefix_task_submit(task, &err) != PREFIX_OK)
    sample_fail(&err);
  follow(task, answers, questions, count, json);

  if (prefix_task_get_totals(task, &totals, &err) != PREFIX_OK) sample_fail(&err);
  if (json) {
    printf("{\"answers\":[");
    for (size_t i = 0; i < count; ++i) {
      if (i) printf(",");
      sample_json_string(stdout, answers[i].text.bytes, answers[i].text.length);
    }
    printf("],\"tokens\":");
    sample_json_totals(stdout, &totals);
    printf("}\n");
  } else {
    sample_table(&totals);
  }

  for (size_t i = 0; i < count; ++i) free(answers[i].text.bytes);
  free(answers);
  sample_free(&context);
  prefix_options_release(options);
  prefix_task_release(task);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return totals.failed != 0;
}
