/* embed - a vector for each text, and which text is nearest to which. */
#include <stdlib.h>

#include "sample.h"

static const char* kHelp =
    "usage: embed MODEL [FILE] [--recipe NAME] [--dimensions N] [--json]\n"
    "\n"
    "Computes a vector of length 1 for every line of FILE (default: standard input) and prints, "
    "for\n"
    "each line, the nearest other one with their cosine. With --json: the vectors.\n"
    "The model brings its recipe unless NAME is another one, a shipped recipe or a file.\n"
    "\n"
    "  printf 'red\\ngreen\\nseven\\n' | embed model.gguf\n";

static double dot(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += (double)a[i] * (double)b[i];
  return sum;
}

static void show_vectors(const float* vectors, size_t rows, size_t width) {
  printf("{\"embeddings\":[");
  for (size_t r = 0; r < rows; ++r) {
    printf("%s[", r ? "," : "");
    for (size_t i = 0; i < width; ++i) {
      const float v = vectors[r * width + i];
      if (v == v)
        printf("%s%.9g", i ? "," : "", (double)v);
      else
        printf("%snull", i ? "," : ""); /* this text failed */
    }
    printf("]");
  }
  printf("],\"tokens\":");
}

static void show_nearest(const float* vectors, const sample_texts* texts, size_t width) {
  for (size_t r = 0; r < texts->count; ++r) {
    size_t best = r;
    double most = -2;
    for (size_t other = 0; other < texts->count; ++other) {
      const double cosine = dot(vectors + r * width, vectors + other * width, width);
      if (other == r || !(cosine > most)) continue;
      most = cosine;
      best = other;
    }
    if (best == r)
      printf("%.40s\n", texts->texts[r]);
    else
      printf("%-40.40s %7.4f  %.40s\n", texts->texts[r], most, texts->texts[best]);
  }
}

int main(int argc, char** argv) {
  sample_name = "embed";
  const int json = sample_option(&argc, argv, "--json", 1) != NULL;
  if (sample_option(&argc, argv, "--help", 1)) return fputs(kHelp, stdout), 0;
  const char* recipe = sample_option(&argc, argv, "--recipe", 0);
  const char* dimensions = sample_option(&argc, argv, "--dimensions", 0);
  sample_no_more_options(argc, argv);
  if (argc < 2 || argc > 3) sample_usage("MODEL is needed");

  sample_texts texts = sample_lines(argc == 3 ? argv[2] : "-");
  if (texts.count == 0) sample_usage("there are no texts");

  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  prefix_tokenizer* tokenizer = NULL;
  prefix_task* task = NULL;
  prefix_options* options = sample_options(recipe, "dimensions", dimensions);
  sample_open(argv[1], &engine, &tokenizer);
  if (prefix_task_create(engine, tokenizer, "embed", PREFIX_NUL, options, &task, &err) !=
          PREFIX_OK ||
      prefix_task_add(task, texts.texts, texts.lengths, texts.count, 0, NULL, &err) != PREFIX_OK ||
      prefix_task_submit(task, &err) != PREFIX_OK)
    sample_fail(&err);
  sample_wait(task);

  size_t width = 0;
  prefix_job_totals totals = PREFIX_JOB_TOTALS_INIT;
  if (prefix_task_width(task, &width, &err) != PREFIX_OK) sample_fail(&err);
  const size_t values = texts.count * width;
  float* vectors = calloc(values, sizeof(*vectors));
  if (vectors == NULL) sample_usage("there is no memory for the vectors");
  if (prefix_task_all_values(task, vectors, values, NULL, &err) != PREFIX_OK ||
      prefix_task_get_totals(task, &totals, &err) != PREFIX_OK)
    sample_fail(&err);
  if (json) {
    show_vectors(vectors, texts.count, width);
    sample_json_totals(stdout, &totals);
    printf("}\n");
  } else {
    show_nearest(vectors, &texts, width);
    sample_table(&totals);
  }

  free(vectors);
  sample_free(&texts);
  prefix_options_release(options);
  prefix_task_release(task);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  return totals.failed != 0;
}
