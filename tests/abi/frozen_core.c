/* A program that knows libprefix.so as a frozen prefix.h describes it: frozen_core MODEL FOLDER.
 * Uses what interface 1 has; what later ones add is for #if PREFIX_ABI_VERSION >= n. */
#include <prefix.h>

#include "frozen.h"

#if PREFIX_ABI_VERSION != FROZEN
#error "another prefix.h than the frozen one"
#endif

static const prefix_token tokens[] = {1, 5, 9, 12, 7, 3, 2, 8};
static const int64_t offsets[] = {0, 2, 3};

static void library(void) {
  DECLARE(prefix_error, err);
  DECLARE(prefix_option_details, option);
  DECLARE(prefix_device_details, device);
  size_t i;
  CHECK(prefix_abi_version() >= PREFIX_ABI_VERSION);
  CHECK(prefix_version() > 0 && prefix_version_string()[0] != 0 && prefix_build_info()[0] != 0);
  CHECK(prefix_feature_count() > 0 && prefix_feature_name(0) != NULL);
  CHECK(prefix_has_feature("cpu", PREFIX_NUL) == 1);
  CHECK(strcmp(prefix_status_name(PREFIX_ERR_FORMAT), "PREFIX_ERR_FORMAT") == 0);
  CHECK(prefix_status_is_retryable(PREFIX_ERR_TIMEOUT) == 1);
  for (i = 0; i < prefix_option_count(); ++i) {
    OK(prefix_option_info(i, &option.it, &err.it));
    CHECK_BEHIND(option);
    CHECK(option.it.key[0] != 0 && option.it.default_value != NULL && option.it.doc[0] != 0);
  }
  for (i = 0; i < prefix_device_count(); ++i) {
    OK(prefix_device_info(i, &device.it, &err.it));
    CHECK_BEHIND(device);
    CHECK(device.it.level[0] != 0 && device.it.reason != NULL);
  }
  prefix_set_log_level(PREFIX_LOG_ERROR);
}

/* The library knows what an error of this header has room for. */
static void failures(void) {
  DECLARE(prefix_error, err);
  DECLARE(prefix_memory, memory);
  prefix_engine* engine = NULL;
  CHECK(prefix_engine_create("/no/such/model", PREFIX_NUL, NULL, &engine, &err.it) ==
        PREFIX_ERR_NOT_FOUND);
  CHECK(err.it.code == PREFIX_ERR_NOT_FOUND && engine == NULL);
  CHECK(strcmp(err.it.domain, "prefix_engine_create") == 0);
  CHECK(strstr(err.it.message, "/no/such/model") != NULL);
  CHECK_BEHIND(err);
  memory.it.struct_size = 8;
  CHECK(prefix_engine_estimate("/no/such/model", PREFIX_NUL, NULL, &memory.it, &err.it) !=
        PREFIX_OK);
  memory.it.struct_size = (int32_t)sizeof(memory.it);
  CHECK_BEHIND(memory);
}

static prefix_engine* open_engine(const char* model) {
  DECLARE(prefix_error, err);
  DECLARE(prefix_memory, memory);
  DECLARE(prefix_engine_info, info);
  prefix_options* options = NULL;
  prefix_engine* engine = NULL;
  char text[4096];
  size_t needed = 0;
  OK(prefix_options_create(&options, &err.it));
  OK(prefix_options_set(options, "cache_bytes", PREFIX_NUL, "8M", PREFIX_NUL, &err.it));
  OK(prefix_options_set_int(options, "threads", 7, 2, &err.it));
  OK(prefix_options_set_json(options, "{\"cache_events\": 64}", PREFIX_NUL, &err.it));
  OK(prefix_options_get(options, "threads", 7, text, sizeof(text), &needed, &err.it));
  CHECK(strcmp(text, "2") == 0 && needed == 1);
  OK(prefix_engine_estimate(model, PREFIX_NUL, options, &memory.it, &err.it));
  CHECK(memory.it.kv_budget_bytes == 8 << 20 && memory.it.total_bytes > memory.it.weight_bytes);
  CHECK_BEHIND(memory);
  OK(prefix_engine_create(model, PREFIX_NUL, options, &engine, &err.it));
  prefix_options_release(options);
  CHECK(prefix_engine_state(engine) == PREFIX_ENGINE_READY);
  OK(prefix_engine_get_info(engine, &info.it, &err.it));
  CHECK(info.it.layers > 0 && info.it.vocabulary > 12 && info.it.threads == 2);
  CHECK(info.it.weight_bytes == memory.it.weight_bytes);
  CHECK_BEHIND(info);
  OK(prefix_engine_info_json(engine, text, sizeof(text), &needed, &err.it));
  CHECK(needed == strlen(text));
  return engine;
}

/* One request of each kind; the number of requests is returned. */
static size_t fill(prefix_batch* batch) {
  DECLARE(prefix_error, err);
  prefix_options* options = NULL;
  const prefix_token choices[] = {4, 6, 10};
  size_t index = 99, count = 0;
  OK(prefix_options_create(&options, &err.it));
  OK(prefix_options_set_int(options, "max_tokens", PREFIX_NUL, 3, &err.it));
  OK(prefix_options_set_bool(options, "ignore_eos", PREFIX_NUL, 1, &err.it));
  OK(prefix_options_set_double(options, "temperature", PREFIX_NUL, 0, &err.it));
  OK(prefix_batch_add_logits(batch, tokens, 8, choices, 3, NULL, 10, &index, &err.it));
  CHECK(index == 0);
  OK(prefix_batch_add_logprobs(batch, tokens, 8, 5, NULL, 11, &index, &err.it));
  OK(prefix_batch_add_choices(batch, tokens, 8, choices, 3, offsets, 3, NULL, 12, &index, &err.it));
  OK(prefix_batch_add_embedding(batch, tokens, 8, NULL, 13, &index, &err.it));
  OK(prefix_batch_add_generate(batch, tokens, 8, options, 14, &index, &err.it));
  OK(prefix_batch_add_warm(batch, tokens, 4, NULL, 15, &index, &err.it));
  OK(prefix_batch_add_continuations(batch, tokens, 8, choices, 3, offsets, 3, NULL, 16, &index,
                                    &err.it));
  CHECK(index == 6);
  OK(prefix_batch_count(batch, &count, &err.it));
  CHECK(count == 8);
  prefix_options_release(options);
  return count;
}

static void events(prefix_job* job, size_t requests) {
  DECLARE(prefix_error, err);
  DECLARE(prefix_event, event);
  size_t finished = 0, generated = 0;
  for (;;) {
    const prefix_status status = prefix_job_next_event(job, -1, &event.it, &err.it);
    CHECK_BEHIND(event);
    if (status == PREFIX_ERR_NO_EVENT) break;
    CHECK(status == PREFIX_OK && event.it.user_tag == 10 + event.it.request);
    if (event.it.kind == PREFIX_EVENT_FINISHED) ++finished;
    if (event.it.kind == PREFIX_EVENT_TOKEN) ++generated;
    if (event.it.kind == PREFIX_EVENT_FINISHED) CHECK(event.it.status == PREFIX_OK);
  }
  CHECK(finished == requests && generated == 3);
}

static void results(const prefix_job* job, size_t requests) {
  static const size_t expected[] = {3, 3, 2};
  DECLARE(prefix_error, err);
  DECLARE(prefix_result_info, info);
  DECLARE(prefix_job_totals, totals);
  float values[64];
  prefix_token generated[8];
  size_t i, needed = 0;
  for (i = 0; i < requests; ++i) {
    OK(prefix_job_result_info(job, i, &info.it, &err.it));
    CHECK_BEHIND(info);
    CHECK(info.it.status == PREFIX_OK && info.it.user_tag == 10 + (int64_t)i);
    CHECK(info.it.prompt_tokens ==
          info.it.cached_tokens + info.it.shared_tokens + info.it.computed_tokens);
    if (i < 3) {
      OK(prefix_job_result_values(job, i, values, 64, &needed, &err.it));
      CHECK(needed == expected[i]);
    }
  }
  OK(prefix_job_result_tokens(job, 4, generated, 8, &needed, &err.it));
  CHECK(needed == 3);
  OK(prefix_job_result_info(job, 4, &info.it, &err.it));
  CHECK(info.it.finish == PREFIX_FINISH_LENGTH && info.it.generated_tokens == 3);
  OK(prefix_job_get_totals(job, &totals.it, &err.it));
  CHECK_BEHIND(totals);
  CHECK(totals.it.requests == (int64_t)requests && totals.it.failed == 0);
  CHECK(totals.it.tokens_given ==
        totals.it.tokens_cached + totals.it.tokens_shared + totals.it.tokens_computed);
  OK(prefix_job_first_failure(job, &needed, &err.it));
}

static void run(prefix_engine* engine) {
  DECLARE(prefix_error, err);
  prefix_batch* batch = NULL;
  prefix_job* job = NULL;
  prefix_queue* queue = NULL;
  int64_t tag = 0;
  size_t requests;
  OK(prefix_batch_create(engine, &batch, &err.it));
  OK(prefix_queue_create(&queue, &err.it));
  requests = fill(batch);
  OK(prefix_submit(engine, batch, &job, &err.it));
  OK(prefix_job_notify(job, queue, 77, &err.it));
  OK(prefix_queue_next(queue, -1, &tag, &err.it));
  CHECK(tag == 77);
  OK(prefix_job_wait(job, 0, &err.it));
  events(job, requests);
  results(job, requests);
  prefix_job_release(job);
  prefix_queue_release(queue);
  prefix_batch_release(batch);
}

static void cache(prefix_engine* engine, const char* file) {
  DECLARE(prefix_error, err);
  DECLARE(prefix_cache_info, found);
  DECLARE(prefix_cache_usage, usage);
  DECLARE(prefix_cache_event, event);
  DECLARE(prefix_snapshot_info, snapshot);
  DECLARE(prefix_engine_stats, stats);
  prefix_token block[64];
  int32_t ns = -1;
  int64_t lease = 0, freed = 0;
  size_t needed = 0;
  OK(prefix_cache_lookup(engine, 0, tokens, 8, &found.it, &err.it));
  CHECK(found.it.cached_tokens > 0 && found.it.pending_tokens == 0);
  CHECK_BEHIND(found);
  OK(prefix_cache_get_usage(engine, 0, &usage.it, &err.it));
  CHECK(usage.it.tokens > 0 && usage.it.bytes > 0);
  CHECK_BEHIND(usage);
  OK(prefix_cache_pin(engine, 0, tokens, 8, 0, &lease, NULL, &err.it));
  OK(prefix_cache_unpin(engine, lease, &err.it));
  OK(prefix_namespace_open(engine, "tenant", PREFIX_NUL, &ns, &err.it));
  CHECK(ns > 0);
  OK(prefix_snapshot_save(engine, file, PREFIX_NUL, NULL, 0, &snapshot.it, &err.it));
  CHECK(snapshot.it.tokens > 0 && snapshot.it.bytes > 0);
  CHECK_BEHIND(snapshot);
  OK(prefix_cache_evict(engine, 0, NULL, 0, &freed, &err.it));
  CHECK(freed > 0);
  OK(prefix_snapshot_load(engine, file, PREFIX_NUL, &snapshot.it, &err.it));
  CHECK_BEHIND(snapshot);
  OK(prefix_engine_get_stats(engine, &stats.it, &err.it));
  CHECK_BEHIND(stats);
  CHECK(stats.it.requests_finished == 8 && stats.it.kv_budget_bytes == 8 << 20);
  switch (prefix_cache_next_event(engine, 0, &event.it, block, 64, &needed, &err.it)) {
    case PREFIX_OK:
      CHECK(event.it.kind == PREFIX_CACHE_STORED || event.it.kind == PREFIX_CACHE_CLEARED);
      break;
    case PREFIX_ERR_NO_EVENT: /* blocks are longer than what ran here */
      break;
    default:
      CHECK(!"an event or none");
  }
  CHECK_BEHIND(event);
}

static void simulation(void) {
  DECLARE(prefix_error, err);
  prefix_sim* sim = NULL;
  int64_t reused = 0;
  OK(prefix_sim_create("{\"policy\": \"lru\"}", PREFIX_NUL, &sim, &err.it));
  OK(prefix_sim_request(sim, NULL, 0, tokens, 8, 7, &reused, &err.it));
  OK(prefix_sim_request(sim, NULL, 0, tokens, 8, 7, &reused, &err.it));
  CHECK(reused > 0);
  prefix_sim_release(sim);
}

int main(int argc, char** argv) {
  prefix_engine* engine;
  DECLARE(prefix_error, err);
  char file[512];
  CHECK(argc == 3);
  snprintf(file, sizeof(file), "%s/snapshot", argv[2]);
  library();
  failures();
  engine = open_engine(argv[1]);
  run(engine);
  cache(engine, file);
  simulation();
  OK(prefix_engine_shutdown(engine, 1000, &err.it));
  prefix_engine_release(engine);
  return 0;
}
