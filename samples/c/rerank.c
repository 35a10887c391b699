/* rerank - which documents fit a query best? */
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static const char* kHelp =
    "usage: rerank MODEL QUERY [FILE] [--recipe NAME] [--top N] [--json]\n"
    "\n"
    "Scores every line of FILE (default: standard input) as a document for QUERY and prints them "
    "from\n"
    "best to worst. MODEL is a .gguf file or a Hugging Face directory. NAME is a shipped recipe\n"
    "(query-likelihood, qwen3-reranker) or a file.\n"
    "\n"
    "  printf 'Bread is baked from flour.\\nThe moon orbits the earth.\\n' |\n"
    "    rerank model.gguf 'How is bread made?'\n";

int main(int argc, char** argv) {
  sample_name = "rerank";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* recipe = sample_option(&argc, argv, "--recipe", 0);
  const char* top = sample_option(&argc, argv, "--top", 0);
  sample_no_more_options(argc, argv);
  if (argc < 3 || argc > 4) sample_usage("MODEL and QUERY are needed");

  char options[1024];
  const int n = snprintf(options, sizeof(options), "{\"recipe\": \"%s\", \"top_n\": %d}",
                         recipe ? recipe : "query-likelihood", top ? atoi(top) : 10);
  if (n < 0 || (size_t)n >= sizeof(options)) sample_usage("the recipe's name is too long");
  sample_texts documents = sample_lines(argc == 4 ? argv[3] : "-");
  if (documents.count == 0) sample_usage("there are no documents");
  const int64_t query_offsets[] = {0, (int64_t)strlen(argv[2])};

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_task* task = NULL;
  sample_open(argv[1], &engine, &tokenizer);
  if (prefix_rerank(engine, tokenizer, argv[2], strlen(argv[2]), query_offsets, 2, documents.bytes,
                    documents.length, documents.offsets, documents.count + 1, options, PREFIX_NUL,
                    &task, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_run(task);

  float* scores = calloc(documents.count, sizeof(*scores));
  int64_t* order = calloc(documents.count, sizeof(*order));
  size_t ranked = 0;
  prefix_job_totals totals = {0};
  totals.struct_size = (int32_t)sizeof(totals);
  if (scores == NULL || order == NULL) sample_usage("there is no memory for the scores");
  if (prefix_task_values(task, scores, documents.count, NULL, &err) != PREFIX_OK ||
      prefix_task_order(task, 0, order, documents.count, &ranked, &err) != PREFIX_OK ||
      prefix_task_totals(task, &totals, &err) != PREFIX_OK)
    sample_fail(&err);
  if (json) printf("{\"ranking\":[");
  for (size_t i = 0; i < ranked; ++i) {
    int length;
    const char* text = sample_text(&documents, (size_t)order[i], &length);
    const double score = (double)scores[order[i]];
    if (json)
      printf("%s{\"index\":%lld,\"score\":%.9g}", i ? "," : "", (long long)order[i], score);
    else
      printf("%3zu %9.4f  %.*s\n", i + 1, score, length > 100 ? 100 : length, text);
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
  prefix_task_release(task);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return totals.failed != 0;
}
