/* score - how likely are continuations of one prefix?
 *
 * Token ids in, log-probabilities out: libprefix alone, without the text library. The prefix is
 * computed once, however many continuations follow it. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <prefix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kHelp =
    "usage: score MODEL PREFIX [CONTINUATION...] [--file FILE] [--set KEY=VALUE]... [--json]\n"
    "\n"
    "Prints the log-probability of each CONTINUATION after PREFIX, and how much of the work was\n"
    "shared. MODEL is a .gguf file or a Hugging Face directory. PREFIX and CONTINUATION are token\n"
    "ids with commas or spaces between them; FILE has one continuation a line (- is standard "
    "input).\n"
    "KEY is an option of the engine or of a request, such as threads or cache_bytes.\n"
    "\n"
    "  score model.gguf 1,15,27,9 4,8 4,9 16\n";

/* Lists of token ids in a row: list i is ids[offsets[i] .. offsets[i + 1]). */
typedef struct {
  prefix_token* ids;
  size_t n_ids;
  int64_t* offsets;
  size_t n_lists;
} token_lists;

static void die(const char* message) {
  fprintf(stderr, "score: %s\n", message);
  exit(1);
}

static void usage(const char* message, const char* detail) {
  fprintf(stderr, "score: %s%s; try --help\n", message, detail);
  exit(2);
}

/* Every call of the library goes through here: the sentence tells what was wrong and what was
 * allowed. */
static void check(prefix_status status, const prefix_error* err) {
  if (status == PREFIX_OK) return;
  fprintf(stderr, "score: %s (%s)\n", err->message, prefix_status_name(status));
  exit(1);
}

static void* grown(void* memory, size_t elements, size_t size) {
  memory = realloc(memory, (elements ? elements : 1) * size);
  if (memory == NULL) die("out of memory");
  return memory;
}

/* Adds the list "1,2 3". Only the shape is checked here: whether the model has such a token it says
 * itself, and better. */
static void add_list(token_lists* lists, const char* text) {
  const char* at = text;
  for (;;) {
    while (*at == ',' || isspace((unsigned char)*at)) ++at;
    if (*at == 0) break;
    char* end;
    errno = 0;
    const long id = strtol(at, &end, 10);
    if (end == at || (*end != 0 && *end != ',' && !isspace((unsigned char)*end)))
      usage("not a list of token ids: ", text);
    if (errno != 0 || id < INT32_MIN || id > INT32_MAX) usage("no token id is this big: ", text);
    /* Capacities are powers of two, so that a long list does not copy itself again and again. */
    if ((lists->n_ids & (lists->n_ids - 1)) == 0)
      lists->ids = grown(lists->ids, 2 * lists->n_ids + 1, sizeof(*lists->ids));
    lists->ids[lists->n_ids++] = (prefix_token)id;
    at = end;
  }
  if ((lists->n_lists & (lists->n_lists - 1)) == 0)
    lists->offsets = grown(lists->offsets, 2 * lists->n_lists + 2, sizeof(*lists->offsets));
  lists->offsets[0] = 0;
  lists->offsets[++lists->n_lists] = (int64_t)lists->n_ids;
}

static void add_file(token_lists* lists, const char* path) {
  FILE* const file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "score: cannot read %s: %s\n", path, strerror(errno));
    exit(2);
  }
  char* line = NULL;
  size_t room = 0, length = 0;
  for (int c = 0; c != EOF;) {
    c = fgetc(file);
    if (length + 1 >= room) line = grown(line, room = 2 * room + 64, 1);
    if (c != EOF && c != '\n') {
      line[length++] = (char)c;
      continue;
    }
    line[length] = 0;
    if (strspn(line, " \t\r") != length) add_list(lists, line);
    length = 0;
  }
  free(line);
  if (file != stdin) fclose(file);
}

/* Engines and requests refuse the options of the other, so each key goes where it belongs. */
static void set_option(prefix_options* for_engine, prefix_options* for_requests,
                       const char* setting) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_option_details details = PREFIX_OPTION_DETAILS_INIT;
  prefix_options* options = for_engine;
  const char* const equals = strchr(setting, '=');
  if (equals == NULL) usage("--set wants KEY=VALUE, not ", setting);
  const size_t key_len = (size_t)(equals - setting);
  for (size_t i = 0; i < prefix_option_count(); ++i) {
    check(prefix_option_info(i, &details, &err), &err);
    if (strlen(details.key) == key_len && strncmp(details.key, setting, key_len) == 0 &&
        details.scope != PREFIX_SCOPE_ENGINE)
      options = for_requests;
  }
  check(prefix_options_set(options, setting, key_len, equals + 1, PREFIX_NUL, &err), &err);
}

static void print_scores(const prefix_job* job, int json) {
  prefix_error err = PREFIX_ERROR_INIT;
  size_t count = 0, n_values = 0;
  check(prefix_job_count(job, &count, &err), &err);
  /* All values of all requests at once: ask for the size, then take them. */
  check(prefix_job_all_values(job, NULL, 0, &n_values, NULL, 0, &err), &err);
  float* const values = grown(NULL, n_values, sizeof(*values));
  int64_t* const offsets = grown(NULL, count + 1, sizeof(*offsets));
  check(prefix_job_all_values(job, values, n_values, NULL, offsets, count + 1, &err), &err);

  if (json)
    printf("{\"continuations\":[");
  else
    printf("%6s%10s%14s%14s  %s\n", "number", "tokens", "log-prob", "per token", "status");
  for (size_t i = 0; i < count; ++i) {
    prefix_result_info info = PREFIX_RESULT_INFO_INIT;
    check(prefix_job_result_info(job, i, &info, &err), &err);
    const int64_t n = offsets[i + 1] - offsets[i];
    double sum = 0;
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) sum += (double)values[k];
    if (json && info.status == PREFIX_OK)
      printf(
          "%s{\"tokens\":%lld,\"logprob\":%.9g,\"cached\":%lld,\"shared\":%lld,\"computed\":%lld}",
          i ? "," : "", (long long)n, sum, (long long)info.cached_tokens,
          (long long)info.shared_tokens, (long long)info.computed_tokens);
    else if (json)
      printf("%s{\"status\":\"%s\"}", i ? "," : "", prefix_status_name(info.status));
    else if (info.status == PREFIX_OK)
      printf("%6zu%10lld%14.4f%14.4f  ok\n", i + 1, (long long)n, sum, sum / (double)n);
    else
      printf("%6zu%10s%14s%14s  %s\n", i + 1, "-", "-", "-", prefix_status_name(info.status));
    if (info.status != PREFIX_OK) {
      prefix_job_result_values(job, i, NULL, 0, NULL, &err); /* says why there are none */
      fprintf(stderr, "score: continuation %zu: %s\n", i + 1, err.message);
    }
  }
  if (json) printf("],");
  free(values);
  free(offsets);
}

/* The tokens of the whole job by where they came from; returns the number of failed requests. */
static int64_t print_totals(const prefix_job* job, int json) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_job_totals t = PREFIX_JOB_TOTALS_INIT;
  check(prefix_job_get_totals(job, &t, &err), &err);
  const double seconds = (double)t.total_us * 1e-6;
  const double speed = seconds > 0 ? (double)t.tokens_given / seconds : 0;
  if (json)
    printf(
        "\"tokens\":{\"given\":%lld,\"cached\":%lld,\"shared\":%lld,\"computed\":%lld,"
        "\"seconds\":%.6f}}\n",
        (long long)t.tokens_given, (long long)t.tokens_cached, (long long)t.tokens_shared,
        (long long)t.tokens_computed, seconds);
  else
    printf("\n%10s%10s%10s%10s%10s%12s\n%10lld%10lld%10lld%10lld%10.3f%12.0f\n", "given", "cached",
           "shared", "computed", "seconds", "tokens/s", (long long)t.tokens_given,
           (long long)t.tokens_cached, (long long)t.tokens_shared, (long long)t.tokens_computed,
           seconds, speed);
  return t.failed;
}

int main(int argc, char** argv) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_options *for_engine = NULL, *for_requests = NULL;
  prefix_engine* engine = NULL;
  prefix_batch* batch = NULL;
  prefix_job* job = NULL;
  token_lists prefix = {0}, continuations = {0};
  const char* model = NULL;
  int json = 0;

  check(prefix_options_create(&for_engine, &err), &err);
  check(prefix_options_create(&for_requests, &err), &err);
  for (int i = 1; i < argc; ++i) {
    const int has_value = strcmp(argv[i], "--file") == 0 || strcmp(argv[i], "--set") == 0;
    if (strcmp(argv[i], "--help") == 0) return fputs(kHelp, stdout), 0;
    if (has_value && i + 1 == argc) usage("a value is missing after ", argv[i]);
    if (strcmp(argv[i], "--json") == 0)
      json = 1;
    else if (strcmp(argv[i], "--file") == 0)
      add_file(&continuations, argv[++i]);
    else if (strcmp(argv[i], "--set") == 0)
      set_option(for_engine, for_requests, argv[++i]);
    else if (strncmp(argv[i], "--", 2) == 0)
      usage("unknown option ", argv[i]);
    else if (model == NULL)
      model = argv[i];
    else
      add_list(prefix.n_lists == 0 ? &prefix : &continuations, argv[i]);
  }
  if (prefix.n_lists == 0) usage("MODEL and PREFIX are needed", "");
  if (continuations.n_lists == 0) usage("there are no continuations", "");

  check(prefix_engine_create(model, PREFIX_NUL, for_engine, &engine, &err), &err);
  check(prefix_batch_create(engine, &batch, &err), &err);
  check(prefix_batch_add_continuations(batch, prefix.ids, prefix.n_ids, continuations.ids,
                                       continuations.n_ids, continuations.offsets,
                                       continuations.n_lists + 1, for_requests, 0, NULL, &err),
        &err);
  check(prefix_run(engine, batch, &job, &err), &err);
  print_scores(job, json);
  const int64_t failed = print_totals(job, json);

  prefix_job_release(job);
  prefix_batch_release(batch);
  prefix_engine_release(engine);
  prefix_options_release(for_engine);
  prefix_options_release(for_requests);
  free(prefix.ids);
  free(prefix.offsets);
  free(continuations.ids);
  free(continuations.offsets);
  return failed != 0;
}
