/* A process with a limit on its address space, as a host program may have: each case prints what
 * the library answered. memory_limit_test.cc runs it and knows what must come out. */
#include <prefix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char* model;

/* What the process has mapped now, and so much more. */
static void allow_more_kb(unsigned long kilobytes) {
  FILE* const file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  struct rlimit limit;
  if (file == NULL || fscanf(file, "%lu", &pages) != 1) exit(3);
  fclose(file);
  limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (kilobytes << 10);
  limit.rlim_max = RLIM_INFINITY;
  if (setrlimit(RLIMIT_AS, &limit) != 0) exit(3);
}

static void allow_more(unsigned long megabytes) { allow_more_kb(megabytes << 10); }

static void tell(const char* what, prefix_status status, const prefix_error* err) {
  printf("%s: %s%s%s\n", what, prefix_status_name(status), status == PREFIX_OK ? "" : ", ",
         status == PREFIX_OK ? "" : err->message);
}

static prefix_engine* load(const char* what, const char* json) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_options* options = NULL;
  prefix_engine* engine = NULL;
  if (prefix_options_create(&options, &err) != PREFIX_OK ||
      prefix_options_set_json(options, json, PREFIX_NUL, &err) != PREFIX_OK)
    exit(3);
  tell(what, prefix_engine_create(model, PREFIX_NUL, options, &engine, &err), &err);
  prefix_options_release(options);
  return engine;
}

/* Runs what is in the batch and tells of its first request. */
static void run(const char* what, prefix_engine* engine, const prefix_batch* batch) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_job* job = NULL;
  prefix_result_info info;
  const prefix_status status = prefix_run(engine, batch, &job, &err);
  if (status != PREFIX_OK) {
    tell(what, status, &err);
    return;
  }
  memset(&info, 0, sizeof(info));
  info.struct_size = (int32_t)sizeof(info);
  if (prefix_job_result_info(job, 0, &info, &err) != PREFIX_OK) exit(3);
  prefix_job_result_message(job, 0, err.message, sizeof(err.message) - 1, NULL, NULL);
  tell(what, info.status, &err);
  prefix_job_release(job);
}

static void run_small(prefix_engine* engine) {
  const prefix_token tokens[] = {1, 2, 3};
  prefix_batch* batch = NULL;
  if (prefix_batch_create(engine, &batch, NULL) != PREFIX_OK ||
      prefix_batch_add_logits(batch, tokens, 3, tokens, 3, NULL, 0, NULL, NULL) != PREFIX_OK)
    exit(3);
  run("small run", engine, batch);
  prefix_batch_release(batch);
}

/* The cache that is asked for does not fit; a smaller one does. */
static void case_load(void) {
  allow_more(512);
  load("load with a large cache", "{\"cache_bytes\": \"4G\", \"threads\": 1}");
  run_small(load("load with a small cache", "{\"cache_bytes\": \"1M\", \"threads\": 1}"));
}

/* The stacks of the threads that are asked for do not fit. */
static void case_threads(void) {
  allow_more(512);
  load("load with 1000 threads", "{\"cache_bytes\": \"1M\", \"threads\": 1000}");
  run_small(load("load with 2 threads", "{\"cache_bytes\": \"1M\", \"threads\": 2}"));
}

/* Every limit up to one that is enough: loading fails at each of the places where it takes memory.
 */
static void case_sweep(void) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_options* options = NULL;
  int short_of_memory = 0, loaded = 0;
  unsigned long kilobytes;
  if (prefix_options_create(&options, &err) != PREFIX_OK ||
      prefix_options_set_json(options, "{\"cache_bytes\": \"1M\", \"threads\": 2}", PREFIX_NUL,
                              &err) != PREFIX_OK)
    exit(3);
  for (kilobytes = 0; kilobytes < 40000; kilobytes += 132) {
    prefix_engine* engine = NULL;
    prefix_status status;
    allow_more_kb(kilobytes);
    status = prefix_engine_create(model, PREFIX_NUL, options, &engine, &err);
    if (status == PREFIX_ERR_OUT_OF_MEMORY)
      ++short_of_memory;
    else if (status == PREFIX_OK)
      ++loaded;
    else
      tell("sweep", status, &err);
    prefix_engine_release(engine);
  }
  prefix_options_release(options);
  printf("sweep: %s out of memory, then %s loaded\n", short_of_memory ? "some" : "none",
         loaded ? "some" : "none");
}

/* A batch that grows until there is no more room for it. */
static void case_batch(void) {
  static prefix_token tokens[4000];
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* const engine = load("load", "{\"cache_bytes\": \"16M\", \"threads\": 1}");
  prefix_batch* batch = NULL;
  prefix_status status = prefix_batch_create(engine, &batch, &err);
  long added = 0;
  size_t count = 0;
  allow_more(64);
  while (status == PREFIX_OK && added < 100000) {
    status = prefix_batch_add_embedding(batch, tokens, 4000, NULL, 0, NULL, &err);
    added += status == PREFIX_OK;
  }
  tell("batch that grows", status, &err);
  if (prefix_batch_count(batch, &count, &err) != PREFIX_OK || (long)count != added) exit(4);
  run("run of the full batch", engine, batch);
  if (prefix_batch_clear(batch, &err) != PREFIX_OK) exit(4);
  prefix_batch_release(batch);
  run_small(engine);
}

/* A step whose activations do not fit. */
static void case_step(void) {
  static prefix_token tokens[4000];
  prefix_engine* const engine =
      load("load", "{\"cache_bytes\": \"64M\", \"threads\": 1, \"rows\": 65536}");
  prefix_batch* batch = NULL;
  int i, k;
  run_small(engine);
  if (prefix_batch_create(engine, &batch, NULL) != PREFIX_OK) exit(3);
  for (i = 0; i < 16; ++i) {
    for (k = 0; k < 4000; ++k) tokens[k] = (prefix_token)((i + k * 7) % 131);
    if (prefix_batch_add_embedding(batch, tokens, 4000, NULL, 0, NULL, NULL) != PREFIX_OK) exit(3);
  }
  allow_more(40);
  run("run with a large step", engine, batch);
  run_small(engine);
  allow_more(4096);
  run("the same with more memory", engine, batch);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  model = argv[2];
  if (strcmp(argv[1], "load") == 0)
    case_load();
  else if (strcmp(argv[1], "threads") == 0)
    case_threads();
  else if (strcmp(argv[1], "sweep") == 0)
    case_sweep();
  else if (strcmp(argv[1], "batch") == 0)
    case_batch();
  else if (strcmp(argv[1], "step") == 0)
    case_step();
  else
    return 2;
  return 0;
}
