/* qa - many questions about one text, answered together. */
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static const char* kHelp =
    "usage: qa MODEL FILE QUESTION... [--recipe NAME] [--json]\n"
    "\n"
    "Answers every QUESTION from the text in FILE (\"-\": standard input). The text is computed "
    "once for\n"
    "all questions. NAME is a shipped recipe (question-answering, extractive-qa) or a file.\n"
    "\n"
    "  qa model.gguf notes.txt 'Who wrote this?' 'When?'\n";

int main(int argc, char** argv) {
  sample_name = "qa";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* recipe = sample_option(&argc, argv, "--recipe", 0);
  sample_no_more_options(argc, argv);
  if (argc < 4) sample_usage("MODEL, FILE and at least one QUESTION are needed");

  char options[1024];
  const int n = snprintf(options, sizeof(options), "{\"recipe\": \"%s\"}",
                         recipe ? recipe : "question-answering");
  if (n < 0 || (size_t)n >= sizeof(options)) sample_usage("the recipe's name is too long");
  sample_texts context = sample_file(argv[2]);
  sample_texts questions = {NULL, 0, NULL, 0};
  for (int i = 3; i < argc; ++i) sample_add(&questions, argv[i], strlen(argv[i]));

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_task* task = NULL;
  sample_open(argv[1], &engine, &tokenizer);
  if (prefix_answer(engine, tokenizer, context.bytes, context.length, questions.bytes,
                    questions.length, questions.offsets, questions.count + 1, options, PREFIX_NUL,
                    &task, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_run(task);

  prefix_job_totals totals = {0};
  totals.struct_size = (int32_t)sizeof(totals);
  if (prefix_task_totals(task, &totals, &err) != PREFIX_OK) sample_fail(&err);
  if (json) printf("{\"answers\":[");
  for (size_t i = 0; i < questions.count; ++i) {
    char text[4096] = "";
    size_t length = 0;
    const int failed =
        prefix_task_item_text(task, (int64_t)i, text, sizeof(text), &length, &err) != PREFIX_OK;
    if (json) {
      if (i) printf(",");
      sample_json_string(stdout, text, failed ? 0 : length);
    } else {
      printf("Q  %s\nA  %s\n", argv[i + 3], failed ? err.message : text);
    }
  }
  if (json) {
    printf("],\"tokens\":");
    sample_json_totals(stdout, &totals);
    printf("}\n");
  } else {
    sample_table(&totals);
  }

  sample_free(&context);
  sample_free(&questions);
  prefix_task_release(task);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return totals.failed != 0;
}
