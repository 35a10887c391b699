/* rerank - which documents fit a query best? */
#include <stdlib.h>

#include "sample.h"

static const char* kHelp =
    "usage: rerank MODEL QUERY [FILE] [--recipe NAME] [--top N] [--json]\n"
    "\n"
    "Scores every line of FILE (default: standard input) as a document for QUERY and prints them "
    "from\n"
    "best to worst. MODEL is a .gguf file or a Hugging Face directory. The model brings\n"
    "its recipe unless NAME is another one, a shipped recipe or a file.\n"
    "\n"
    "  printf 'Bread is baked from flour.\\nThe moon orbits the earth.\\n' |\n"
    "    rerank model.gguf 'How is bread made?'\n";

/* From best to worst: fills order and scores, which have room for all, and returns how many. */
static size_t rank(prefix_task* task, const char* query, const sample_texts* documents,
                   int64_t* order, float* scores) {
  prefix_error err = PREFIX_ERROR_INIT;
  const size_t n = documents->count;
  size_t ranked = 0;
  if (prefix_task_add_product(task, &query, NULL, 1, documents->texts, documents->lengths, n, 0,
                              NULL, &err) != PREFIX_OK ||
      prefix_task_submit(task, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_wait(task);
  if (prefix_task_ranking(task, 0, n, order, n, &ranked, scores, n, &err) != PREFIX_OK)
    sample_fail(&err);
  return ranked;
}

int main(int argc, char** argv) {
  sample_name = "rerank";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* recipe = sample_option(&argc, argv, "--recipe", 0);
  const char* top = sample_option(&argc, argv, "--top", 0);
  sample_no_more_options(argc, argv);
  if (argc < 3 || argc > 4) sample_usage("MODEL and QUERY are needed");

  sample_texts documents = sample_lines(argc == 4 ? argv[3] : "-");
  if (documents.count == 0) sample_usage("there are no documents");
  float* scores = calloc(documents.count, sizeof(*scores));
  int64_t* order = calloc(documents.count, sizeof(*order));
  if (scores == NULL || order == NULL) sample_usage("there is no memory for the scores");

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_task* task = NULL;
  prefix_job_totals totals = PREFIX_JOB_TOTALS_INIT;
  prefix_options* options = sample_options(recipe, "top_n", top ? top : "10");
  sample_open(argv[1], &engine, &tokenizer);
  if (prefix_task_create(engine, tokenizer, "rerank", PREFIX_NUL, options, &task, &err) !=
      PREFIX_OK)
    sample_fail(&err);
  const size_t ranked = rank(task, argv[2], &documents, order, scores);
  if (prefix_task_get_totals(task, &totals, &err) != PREFIX_OK) sample_fail(&err);
  if (json) printf("{\"ranking\":[");
  for (size_t i = 0; i < ranked; ++i) {
    if (json)
      printf("%s{\"index\":%lld,\"score\":%.9g}", i ? "," : "", (long long)order[i],
             (double)scores[i]);
    else
      printf("%3zu %9.4f  %.100s\n", i + 1, (double)scores[i], documents.texts[order[i]]);
  }
  if (json) {
    printf("],\"tokens\":");
    sample_json_totals(stdout, &totals);
    printf("}\n");
  } else {
    sample_table(&totals);
  }
  if (totals.failed != 0) fprintf(stderr, "%lld documents failed\n", (long long)totals.failed);

  free(scores);
  free(order);
  sample_free(&documents);
  prefix_options_release(options);
  prefix_task_release(task);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return totals.failed != 0;
}
