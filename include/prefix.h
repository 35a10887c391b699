/* prefix.h - run transformer models over shared prefixes, inside your own process.
 *
 * A batch is a tree: every token that requests share is computed once, stored once and read once,
 * within a batch, between batches in flight and with finished work that is still in the cache.
 *
 *   #include <prefix.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     const prefix_token question[] = {1, 5, 9, 12}, ids[] = {3, 4};
 *     float scores[2];
 *     prefix_error err = PREFIX_ERROR_INIT;
 *     prefix_engine* engine = NULL;
 *     prefix_batch* batch = NULL;
 *     prefix_job* job = NULL;
 *     if (prefix_engine_create("model.gguf", PREFIX_NUL, NULL, &engine, &err) != PREFIX_OK ||
 *         prefix_batch_create(engine, &batch, &err) != PREFIX_OK ||
 *         prefix_batch_add_logits(batch, question, 4, ids, 2, NULL, 0, NULL, &err) != PREFIX_OK ||
 *         prefix_run(engine, batch, &job, &err) != PREFIX_OK ||
 *         prefix_job_result_values(job, 0, scores, 2, NULL, &err) != PREFIX_OK) {
 *       fprintf(stderr, "%s\n", err.message);
 *     } else {
 *       printf("%g %g\n", scores[0], scores[1]);
 *     }
 *     prefix_job_release(job);
 *     prefix_batch_release(batch);
 *     prefix_engine_release(engine);
 *     return err.code == PREFIX_OK ? 0 : 1;
 *   }
 *
 * Rules that hold for every function:
 *
 *  1. Handles (options, pool, source, engine, constraint, batch, job, queue, sim) are opaque.
 *     create, open, run and submit give one reference; retain adds one; release drops one, takes
 *     NULL and never fails. Children keep their parents alive, so any order of releases is right. A
 *     handle that was released or never was one is answered with PREFIX_ERR_MISUSE, never with a
 *     crash.
 *  2. Fallible functions return a prefix_status and take a trailing prefix_error*, which may be
 *     NULL. It belongs to the caller, holds one sentence with the value and the limit that it
 *     broke, and is written only on failure.
 *  3. Text in is UTF-8 with a length; PREFIX_NUL as length means "up to the terminating zero".
 *     Text and arrays out go to the caller's buffer, whole or not at all: `needed` (may be NULL)
 *     receives how many elements there are; a capacity of 0, with any buffer, only asks for that;
 *     any other that is too small is PREFIX_ERR_BUFFER_TOO_SMALL, and nothing is written but
 *     `needed`. Text is counted in bytes without the zero that always ends it: n bytes of text want
 *     a capacity of n + 1.
 *  4. Structs that the library fills or reads begin with struct_size, set by the caller to sizeof
 *     (each has an _INIT macro that does it): a library that knows more fields takes those that
 *     fit, one that knows fewer leaves the rest alone. Smaller than the first release's layout is
 *     PREFIX_ERR_STRUCT_TOO_OLD; but a prefix_error that small is left as it is, and the call
 *     answers with its own status.
 *  5. [any thread]: may be called from any thread at any time. [one thread per handle]: calls on
 *     one handle must not overlap. A call takes at most 64 KB of its thread's stack, and what the
 *     driver of a GPU takes where devices are asked for: threads of the library compute.
 *  6. One bad request fails alone, with its own status; the others of the batch are not affected. A
 *     call that fails changes nothing.
 *  7. The library never prints, exits, aborts, throws across this interface or installs signal
 *     handlers. After a broken invariant, or when memory runs out while a step is planned, the
 *     engine answers PREFIX_ERR_ENGINE_FAILED; the process lives. In a child of fork() whose parent
 *     had made a handle of any kind before, even one it released, every call that takes or makes a
 *     handle answers PREFIX_ERR_FORKED, and a release does nothing.
 *  8. No callback is needed for anything: each has a polling twin. Waits are given in milliseconds,
 *     negative for no limit; measured times are microseconds.
 *  9. Results have the same bits whether a request ran alone or in a batch, in any order, with
 *     sharing on or off, cold or from the cache, with any number of threads; on a GPU with
 *     invariant=true only.
 */
#ifndef PREFIX_H
#define PREFIX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SWIG)
#define PREFIX_API
#elif defined(__GNUC__)
#define PREFIX_API __attribute__((visibility("default")))
#else
#define PREFIX_API
#endif

/* ---- Versions ------------------------------------------------------------------------------- */

/* The interface this header describes. It only grows; a program built with it runs with any library
 * whose prefix_abi_version() is at least this. */
#define PREFIX_ABI_VERSION 1

/* [any thread] major * 10000 + minor * 100 + patch of the loaded library. */
PREFIX_API int32_t prefix_version(void);
/* [any thread] The same as text; static. */
PREFIX_API const char* prefix_version_string(void);
/* [any thread] Check this first after dlopen. */
PREFIX_API int32_t prefix_abi_version(void);
/* [any thread] One line for bug reports: version, compiler, instruction-set level; static. */
PREFIX_API const char* prefix_build_info(void);

/* [any thread] What this library was built with and this machine can run: "cpu", "bf16", "f32",
 * "gguf", "safetensors", "avx512_bf16", ... Names are static; NULL when index is out of range. */
PREFIX_API size_t prefix_feature_count(void);
PREFIX_API const char* prefix_feature_name(size_t index);
/* [any thread] 1 or 0. */
PREFIX_API int32_t prefix_has_feature(const char* name, size_t name_len);

/* ---- Status and errors ---------------------------------------------------------------------- */

typedef int32_t prefix_status;
typedef int32_t prefix_token;

#define PREFIX_NUL ((size_t)-1)

enum {
  PREFIX_OK = 0,
  PREFIX_ERR_INVALID_ARGUMENT = 100,   /* a NULL, an empty list, a value that makes no sense */
  PREFIX_ERR_INVALID_UTF8 = 101,       /* text that is not UTF-8 */
  PREFIX_ERR_UNKNOWN_OPTION = 102,     /* no such option; the message may name one like it */
  PREFIX_ERR_OUT_OF_RANGE = 103,       /* a number outside its limits */
  PREFIX_ERR_STRUCT_TOO_OLD = 104,     /* struct_size is smaller than the first layout */
  PREFIX_ERR_BUFFER_TOO_SMALL = 105,   /* a capacity that is not 0 and too small; see `needed` */
  PREFIX_ERR_MISUSE = 200,             /* a released or foreign handle, or the wrong moment */
  PREFIX_ERR_FORKED = 201,             /* called in the child of a fork() */
  PREFIX_ERR_NOT_FOUND = 300,          /* no such file, namespace, result */
  PREFIX_ERR_IO = 301,                 /* the system could not read or write */
  PREFIX_ERR_FORMAT = 400,             /* a corrupt or contradictory file */
  PREFIX_ERR_UNSUPPORTED_MODEL = 401,  /* a valid model that this library does not run */
  PREFIX_ERR_UNSUPPORTED_DEVICE = 402, /* this machine lacks what was asked for */
  PREFIX_ERR_INCOMPATIBLE_SNAPSHOT = 403,
  PREFIX_ERR_PROMPT_TOO_LONG = 500, /* more tokens than the context holds */
  PREFIX_ERR_NOT_FINITE = 501,      /* the model computed a NaN or an infinity for this request */
  PREFIX_ERR_OUT_OF_MEMORY = 600,
  PREFIX_ERR_OUT_OF_DEVICE_MEMORY = 601,
  PREFIX_ERR_CACHE_FULL = 602, /* cache_bytes is too small for the request */
  PREFIX_ERR_QUEUE_FULL = 700, /* too many unfinished requests: try again later, or split a batch of
                                * more than queue_limit, which never fits */
  PREFIX_ERR_TIMEOUT = 701,    /* a wait that ran out; try again */
  PREFIX_ERR_CANCELLED = 702,
  PREFIX_ERR_DEADLINE = 703, /* the deadline_ms of a request has passed */
  PREFIX_ERR_DEVICE_LOST = 800,
  PREFIX_ERR_ENGINE_FAILED = 801, /* an earlier failure inside, or of memory in a step; create a new
                                   * engine */
  PREFIX_ERR_NO_EVENT = 900,      /* nothing to poll now */
  PREFIX_ERR_INTERNAL = 1000      /* a bug in the library */
};

typedef struct prefix_error {
  int32_t struct_size;
  int32_t code;
  char domain[48];   /* the function that failed */
  char message[456]; /* one sentence, UTF-8, cut to fit */
} prefix_error;
#define PREFIX_ERROR_INIT {(int32_t)sizeof(prefix_error), 0, {0}, {0}}

/* [any thread] "PREFIX_ERR_FORMAT" and so on; "PREFIX_ERR_UNKNOWN" for other numbers. Static. */
PREFIX_API const char* prefix_status_name(prefix_status status);
/* [any thread] 1 when the same call may succeed later: QUEUE_FULL, TIMEOUT, NO_EVENT. */
PREFIX_API int32_t prefix_status_is_retryable(prefix_status status);

/* ---- Options -------------------------------------------------------------------------------- */

/* String-keyed options; the library lists its own (prefix_option_info). Whoever takes a handle
 * copies what is in it; an option that would have no effect there (one for engines on a request,
 * one for generation on an embedding) is an INVALID_ARGUMENT. */
typedef struct prefix_options prefix_options;

enum {
  PREFIX_OPTION_INT = 0,
  PREFIX_OPTION_FLOAT = 1,
  PREFIX_OPTION_BOOL = 2,
  PREFIX_OPTION_STRING = 3,
  PREFIX_OPTION_INT_LIST = 4,
  PREFIX_OPTION_STRING_LIST = 5
};
enum {
  PREFIX_SCOPE_ENGINE = 0,
  PREFIX_SCOPE_REQUEST = 1, /* of every kind */
  PREFIX_SCOPE_GENERATE = 2,
  PREFIX_SCOPE_EMBEDDING = 3,
  PREFIX_SCOPE_TASK = 4 /* of libprefix_text; they take those of their requests too */
};

typedef struct prefix_option_details {
  int32_t struct_size;
  int32_t type;  /* PREFIX_OPTION_* */
  int32_t scope; /* PREFIX_SCOPE_* */
  int32_t reserved;
  double minimum, maximum; /* numbers */
  const char* key;         /* static, as are the next three */
  const char* default_value;
  const char* values; /* "a|b|c", or "" for free text */
  const char* doc;
} prefix_option_details;
#define PREFIX_OPTION_DETAILS_INIT \
  {(int32_t)sizeof(prefix_option_details), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* [any thread] */
PREFIX_API prefix_status prefix_options_create(prefix_options** out, prefix_error* err);
PREFIX_API prefix_status prefix_options_retain(prefix_options* options, prefix_error* err);
PREFIX_API void prefix_options_release(prefix_options* options);
/* The next ones: [any thread] UNKNOWN_OPTION, INVALID_ARGUMENT for a value of another type (a
 * number is no text; but 0 and 1 are bools too, and a whole number is a list of one),
 * OUT_OF_RANGE. As text: bools are true, 1, on and false, 0, off; numbers of bytes take suffixes
 * K, M, G (2^10, 2^20, 2^30); lists of numbers are "1,2,3", lists of texts JSON arrays. */
PREFIX_API prefix_status prefix_options_set(prefix_options* options, const char* key,
                                            size_t key_len, const char* value, size_t value_len,
                                            prefix_error* err);
PREFIX_API prefix_status prefix_options_set_int(prefix_options* options, const char* key,
                                                size_t key_len, int64_t number, prefix_error* err);
PREFIX_API prefix_status prefix_options_set_double(prefix_options* options, const char* key,
                                                   size_t key_len, double number,
                                                   prefix_error* err);
/* 0 is false. */
PREFIX_API prefix_status prefix_options_set_bool(prefix_options* options, const char* key,
                                                 size_t key_len, int32_t value, prefix_error* err);
/* For options that are lists of whole numbers, as stop_tokens. */
PREFIX_API prefix_status prefix_options_set_ints(prefix_options* options, const char* key,
                                                 size_t key_len, const prefix_token* values,
                                                 size_t n_values, prefix_error* err);
/* For option stop. lengths: of each text; NULL when all end with a zero. */
PREFIX_API prefix_status prefix_options_set_texts(prefix_options* options, const char* key,
                                                  size_t key_len, const char* const* texts,
                                                  const size_t* lengths, size_t n_texts,
                                                  prefix_error* err);
/* Merges {"key": value, ...}; all or nothing. A key that occurs twice is INVALID_ARGUMENT. 2.0 and
 * 2e0 are whole numbers. */
PREFIX_API prefix_status prefix_options_set_json(prefix_options* options, const char* json,
                                                 size_t json_len, prefix_error* err);
/* The value in force (the default when it was never set), as text. */
PREFIX_API prefix_status prefix_options_get(const prefix_options* options, const char* key,
                                            size_t key_len, char* buf, size_t cap, size_t* needed,
                                            prefix_error* err);
/* What was set, as prefix_options_set_json takes it. */
PREFIX_API prefix_status prefix_options_json(const prefix_options* options, char* buf, size_t cap,
                                             size_t* needed, prefix_error* err);
/* [any thread] Every option there is. */
PREFIX_API size_t prefix_option_count(void);
PREFIX_API prefix_status prefix_option_info(size_t index, prefix_option_details* out,
                                            prefix_error* err);

/* ---- Pool ----------------------------------------------------------------------------------- */

/* Worker threads that engines share: a process with several engines has one set of them. An engine
 * without a pool makes its own, by the same options.
 *
 * A pool of n threads computes on n at once: n - 1 workers, and the scheduler thread of the engine
 * whose turn it is. On a CPU the engines take turns step by step, in the order in which they ask.
 * So a step waits for at most one step of each other engine that is busy, and takes its own time
 * then: where answers must come soon, give all engines of a pool a smaller option rows. An engine
 * on a GPU computes meanwhile, and takes turns only for what it does on the host. Loading takes
 * turns matrix by matrix, and the thread of the load takes part in it.
 *
 * Option cpus binds workers and schedulers, and never a thread of the host. On a machine with
 * several NUMA nodes make one pool for each, of its processors, and engines on it: what a thread
 * writes first lies in the memory of its node. */
typedef struct prefix_pool prefix_pool;

/* [any thread] options: NULL, or threads and cpus. Errors: INVALID_ARGUMENT for any other option
 * that is set, OUT_OF_RANGE for a processor that the process may not use, OUT_OF_MEMORY,
 * UNSUPPORTED_DEVICE where the system does not bind threads. */
PREFIX_API prefix_status prefix_pool_create(const prefix_options* options, prefix_pool** out,
                                            prefix_error* err);
PREFIX_API prefix_status prefix_pool_retain(prefix_pool* pool, prefix_error* err);
/* [any thread] Options and engines that have the pool keep it: the threads end with the last. */
PREFIX_API void prefix_pool_release(prefix_pool* pool);
/* [any thread] Engines that are made with these options use the pool; NULL takes it away. Creating
 * an engine with a pool and option threads or cpus is an INVALID_ARGUMENT, and so is giving options
 * with a pool to anything but an engine. */
PREFIX_API prefix_status prefix_options_set_pool(prefix_options* options, prefix_pool* pool,
                                                 prefix_error* err);

/* ---- Log ------------------------------------------------------------------------------------ */

enum {
  PREFIX_LOG_DEBUG = 0,
  PREFIX_LOG_INFO = 1,
  PREFIX_LOG_WARNING = 2,
  PREFIX_LOG_ERROR = 3,
  PREFIX_LOG_OFF = 4
};
/* Called from any thread of the library, never under one of its locks; text is valid during the
 * call. The thread may be an engine's own: a callback must not wait for one. In it
 * prefix_engine_shutdown answers MISUSE, and what is released for the last time is freed by another
 * thread. Messages of calls that it makes go to the polling twin alone. */
typedef void (*prefix_log_callback)(int32_t level, const char* text, void* user);

/* [any thread] NULL stops it. No call of the one before is running when this returns, unless a
 * callback calls it. Messages below the level are dropped; the default is WARNING. */
PREFIX_API void prefix_set_log_callback(prefix_log_callback callback, void* user);
PREFIX_API void prefix_set_log_level(int32_t level);
/* [any thread] The polling twin: the oldest of the last 1,024 messages, which goes with the call
 * that gets it. NO_EVENT when there is none. */
PREFIX_API prefix_status prefix_log_next(int32_t* level, char* buf, size_t cap, size_t* needed);
/* [any thread] A message of the program's own, or of a library on top of this one, to the same
 * readers. Levels are DEBUG to ERROR; OUT_OF_RANGE. */
PREFIX_API prefix_status prefix_log_write(int32_t level, const char* text, size_t text_len,
                                          prefix_error* err);

/* ---- Devices -------------------------------------------------------------------------------- */

typedef struct prefix_device_details {
  int32_t struct_size;
  int32_t available;   /* 1: engines can run on it */
  int32_t chosen;      /* 1: they do unless option device names another */
  int32_t threads;     /* cores this process may use; "cuda": multiprocessors */
  int64_t total_bytes; /* memory of the device; "cpu": what the process may use of it */
  int64_t free_bytes;  /* "cuda": 0, it would cost a context to ask */
  const char* kind;    /* "cpu" or "cuda"; static, as are the next three */
  const char* level;   /* instruction-set level that option isa = auto takes, "amx"; "sm_90" */
  const char* reason;  /* why not available; "" when it is */
  const char* name;    /* as its maker calls it, "NVIDIA H200"; "" when that is not known */
} prefix_device_details;
#define PREFIX_DEVICE_DETAILS_INIT \
  {(int32_t)sizeof(prefix_device_details), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* [any thread] The CPU; then each GPU that libprefix_cuda.so finds (the first call opens it), in
 * the order of option device = cuda:0, cuda:1, ... The levels of the CPU that this machine can run
 * are among the features; why it cannot run another, or has no GPU, is in the message of an engine
 * that is made with that option isa or device. Where there is a GPU this starts CUDA, which does
 * not survive fork(): a process that means to fork children that use CUDA, in whatever library,
 * lists devices in one of them. */
PREFIX_API size_t prefix_device_count(void);
PREFIX_API prefix_status prefix_device_info(size_t index, prefix_device_details* out,
                                            prefix_error* err);

/* ---- Completion queue ----------------------------------------------------------------------- */

/* Tags of jobs that are done (prefix_job_notify) or have events to read (prefix_job_notify_events),
 * and of engines that are loaded (prefix_engine_notify): one thread waits for all of them, or an
 * event loop does. */
typedef struct prefix_queue prefix_queue;

/* [any thread], and the next ones. */
PREFIX_API prefix_status prefix_queue_create(prefix_queue** out, prefix_error* err);
PREFIX_API prefix_status prefix_queue_retain(prefix_queue* queue, prefix_error* err);
PREFIX_API void prefix_queue_release(prefix_queue* queue);
/* Takes the oldest tag; TIMEOUT when there is none within timeout_ms (< 0: no limit, 0: only look).
 * Of several threads that wait each tag goes to one. */
PREFIX_API prefix_status prefix_queue_next(prefix_queue* queue, int64_t timeout_ms, int64_t* tag,
                                           prefix_error* err);
/* Puts a tag of your own into it, for instance to wake a thread that waits. */
PREFIX_API prefix_status prefix_queue_post(prefix_queue* queue, int64_t tag, prefix_error* err);
/* A file descriptor that poll() and its like find readable while there is a tag. It belongs to the
 * queue: do not read from it and do not close it. IO when the system gives none. */
PREFIX_API prefix_status prefix_queue_descriptor(prefix_queue* queue, int32_t* descriptor,
                                                 prefix_error* err);

/* ---- Source --------------------------------------------------------------------------------- */

/* The files of a model by their names, for one that is in no file system, or not yet: those of a
 * Hugging Face directory (config.json, generation_config.json, model.safetensors or
 * model.safetensors.index.json with its shards; and what says how the model is used: modules.json
 * with the config.json of its folders, "1_Pooling/config.json", config_sentence_transformers.json,
 * sentence_bert_config.json, tokenizer_config.json, prefix_recipe.json), or one with a name ending
 * with .gguf. Those of a directory that option pack_to wrote have prefix_int8.safetensors for its
 * weights. Files with other names are not read. A model is the same however it was fed: results,
 * snapshots and caches on disk know no difference. Or the files of an adapter
 * (prefix_adapter_load_source). */
typedef struct prefix_source prefix_source;

/* Copies the `bytes` bytes of the file from offset on to `to`; they lie inside the file. 0: all of
 * them are there; any other number fails the load with IO. Called from any thread of the library,
 * several at once, never under one of its locks. It must not throw. */
typedef int32_t (*prefix_read_at)(void* user, int64_t offset, void* to, size_t bytes);

/* [any thread], and the next ones. */
PREFIX_API prefix_status prefix_source_create(prefix_source** out, prefix_error* err);
PREFIX_API prefix_status prefix_source_retain(prefix_source* source, prefix_error* err);
/* Files that are being loaded must stay: see below. */
PREFIX_API void prefix_source_release(prefix_source* source);
/* A file in memory. It is not copied: it must stay as it is until every load from this source has
 * ended (prefix_engine_wait, prefix_engine_notify), or its engine was shut down, or released with
 * every batch made for it: a batch holds the engine, so that its load goes on.
 * INVALID_ARGUMENT for a name that leads out of the model's directory, or that is there already. */
PREFIX_API prefix_status prefix_source_add_buffer(prefix_source* source, const char* name,
                                                  size_t name_len, const void* data, size_t size,
                                                  prefix_error* err);
/* A file of `size` bytes that `read` reads, parts of it more than once: a load with compute=int8
 * reads weights twice. The function and `user` must work until every load from
 * this source has ended: neither a release nor a shutdown waits for a call that is under way.
 * Errors as above, and OUT_OF_RANGE for a negative size. */
PREFIX_API prefix_status prefix_source_add_reader(prefix_source* source, const char* name,
                                                  size_t name_len, int64_t size,
                                                  prefix_read_at read, void* user,
                                                  prefix_error* err);

/* ---- Engine --------------------------------------------------------------------------------- */

/* One model, one cache, one scheduler. */
typedef struct prefix_engine prefix_engine;

typedef struct prefix_memory {
  int32_t struct_size;
  int32_t reserved;
  int64_t weight_bytes;
  int64_t kv_bytes_per_token;
  int64_t kv_budget_bytes;
  /* Of steps of `rows` tokens without adapters, at most: buffers, logits, and what the device needs
   * besides. Of models with recurrent layers with room for the states of 8 prefixes that continue
   * one another; requests that nest deeper take more (live_state_bytes_peak). */
  int64_t activation_bytes;
  int64_t total_bytes;
} prefix_memory;
#define PREFIX_MEMORY_INIT {(int32_t)sizeof(prefix_memory), 0, 0, 0, 0, 0, 0}

enum {
  PREFIX_ENGINE_LOADING = 0,
  PREFIX_ENGINE_READY = 1,
  PREFIX_ENGINE_DRAINING = 2,
  PREFIX_ENGINE_CLOSED = 3,
  PREFIX_ENGINE_FAILED = 4
};

/* Counters since creation unless said otherwise; tokens_given = cached + shared + computed. */
typedef struct prefix_engine_stats {
  int32_t struct_size;
  int32_t reserved;
  int64_t requests_waiting, requests_running; /* now */
  int64_t requests_finished, requests_failed;
  int64_t tokens_given, tokens_cached, tokens_shared, tokens_computed, tokens_generated;
  int64_t steps, rows;                          /* rows: what the model really computed */
  int64_t pages_total, pages_used, page_tokens; /* KV pages, now */
  int64_t kv_bytes, kv_bytes_peak, kv_budget_bytes;
  /* Activations: buffers of steps, logits, and what the device took besides for partial results and
   * as the working memory of its threads. */
  int64_t weight_bytes, activation_bytes_peak;
  int64_t tree_nodes, tree_tokens; /* now */
  int64_t evictions, evicted_tokens;
  int64_t gemm_us, attention_us, other_us, plan_us, run_us, load_us;
  int64_t metadata_bytes; /* of the tree, its pages and the namespaces, now */
  /* Tokens that came from disk or store; that were there, but computing them was faster; and how
   * often a request waited for them in vain (option cache_fetch_ms). */
  int64_t fetched_tokens, fetch_skipped_tokens, fetch_timeouts;
  /* Why tokens had to be computed, of requests that ended (prefix_result_info has those of each),
   * as far as it is remembered (of some 32,000 pages that were asked for last). first_seen: never
   * asked for before; namespace: only in another namespace; budget: evicted for want of room
   * (cache_bytes, quota); evicted: dropped, expired or not kept; granularity: they are there, and
   * a result at them was asked for. */
  int64_t miss_first_seen, miss_namespace, miss_budget, miss_evicted, miss_granularity;
  /* Of models with recurrent layers. miss_state: tokens whose keys are there, but no state of the
   * recurrent layers to go on from. States in the cache, now, and their bytes, which are pages too;
   * those that made room; and the most bytes of states that one layer of a step had at a time. */
  int64_t miss_state;
  int64_t states, state_bytes, state_evictions, live_state_bytes_peak;
  /* Of the products that gemm_us took: two for each multiply-add with a weight of the model. 0, as
   * the times are, where the device computes after its calls have returned (a GPU). */
  int64_t gemm_flops;
  /* Of generations with draft_tokens: tokens that were guessed and checked, and those of them that
   * the model said as well, each of which saved a step. */
  int64_t draft_tokens, draft_tokens_accepted;
} prefix_engine_stats;
#define PREFIX_ENGINE_STATS_INIT         \
  {(int32_t)sizeof(prefix_engine_stats), \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0,                                    \
   0}

/* [any thread] What a model holds, from the headers of its files alone; path as below.
 * {"format": "safetensors" or "GGUF", "architecture": name as the file gives it,
 *  "model_type": what this library runs it as,
 *  "sizes": {"layers": n, "hidden", "heads", "kv_heads", "head_dim", "intermediate",
 *            "vocabulary", "max_positions", "recurrent_layers", "experts", "experts_per_token"},
 *  "logits": false when the output matrix is missing, so that requests can embed only,
 *  "tensors": [{"group": "embedding" or "attention", "recurrent", "mlp", "experts", "norm",
 *                        "output", "unused" (parts that are not run), "other",
 *               "dtype": type in the file, "tensors": n, "parameters": n, "bytes": n}],
 *  "parameters": n, "bytes": n, "state_bytes": n, "flops_per_token": n}
 * state_bytes is what all recurrent layers together know after a token; 0 without any.
 * flops_per_token counts the matrices, of experts those that a token uses; attention comes on
 * top, in proportion to the context.
 * NOT_FOUND, IO, FORMAT, UNSUPPORTED_MODEL. */
PREFIX_API prefix_status prefix_model_info_json(const char* path, size_t path_len, char* buf,
                                                size_t cap, size_t* needed, prefix_error* err);
/* [any thread] Bytes that an engine would take, from the headers of the files alone. What the
 * engine would have among its warnings, as far as headers tell it, is in the log (WARNING).
 * path: a Hugging Face directory (config.json and safetensors) or a .gguf file. options may be
 * NULL. NOT_FOUND, IO, FORMAT, UNSUPPORTED_MODEL. */
PREFIX_API prefix_status prefix_engine_estimate(const char* path, size_t path_len,
                                                const prefix_options* options, prefix_memory* out,
                                                prefix_error* err);
/* [any thread] Loads a model, on a thread of the library, and waits for it. As above, and
 * UNSUPPORTED_DEVICE, OUT_OF_MEMORY; on a GPU also OUT_OF_DEVICE_MEMORY, DEVICE_LOST. */
PREFIX_API prefix_status prefix_engine_create(const char* path, size_t path_len,
                                              const prefix_options* options, prefix_engine** out,
                                              prefix_error* err);
/* [any thread] The same without waiting: the engine is PREFIX_ENGINE_LOADING, and a thread of the
 * library loads it. Here come only errors for which no file is read, as those of options; the
 * others come from prefix_engine_wait.
 * While it loads, batches can be made for it, and retain, release, shutdown, state, wait and notify
 * do as they say; every other function of an engine answers MISUSE. When the load has failed they
 * answer ENGINE_FAILED, with its sentence. */
PREFIX_API prefix_status prefix_engine_open(const char* path, size_t path_len,
                                            const prefix_options* options, prefix_engine** out,
                                            prefix_error* err);
/* [any thread] The same from the files that the source has now; it may be changed or released
 * afterwards. INVALID_ARGUMENT when it has none. */
PREFIX_API prefix_status prefix_engine_open_source(prefix_source* source,
                                                   const prefix_options* options,
                                                   prefix_engine** out, prefix_error* err);
/* [any thread] OK when the engine is ready; timeout_ms < 0 waits for that without limit, 0 only
 * looks. TIMEOUT while it loads. Otherwise the status and the sentence of the load that failed,
 * whenever it is asked; CANCELLED when a shutdown ended it. *fraction (may be NULL): how much is
 * loaded, in [0, 1], with OK and TIMEOUT; it never goes back. */
PREFIX_API prefix_status prefix_engine_wait(prefix_engine* engine, int64_t timeout_ms,
                                            double* fraction, prefix_error* err);
/* [any thread] Puts the tag into the queue when the load has ended, however; at once when it has.
 * Each call brings one tag. */
PREFIX_API prefix_status prefix_engine_notify(prefix_engine* engine, prefix_queue* queue,
                                              int64_t tag, prefix_error* err);
PREFIX_API prefix_status prefix_engine_retain(prefix_engine* engine, prefix_error* err);
/* [any thread] The last release cancels what runs and frees everything; it ends a load soon, before
 * the next piece of weights, and does not wait for that. */
PREFIX_API void prefix_engine_release(prefix_engine* engine);
/* [any thread] Takes no more requests, waits up to timeout_ms (>= 0) for running ones, cancels the
 * rest and frees model and cache at once; pages that are on their way to a disk or a store are
 * waited for before, 5 seconds at most, as by the last release. Afterwards what would compute, or
 * use the cache or its namespaces, answers MISUSE; statistics, information and the number of
 * namespaces can still be read. Idempotent: a second call may end the wait of the first. A task
 * (prefix_text.h) whose requests are not all handed over ends with those that are: wait for it
 * before. A load is ended as by the last release, and waited for up to timeout_ms:
 * prefix_engine_wait tells when it has. One of an adapter is not waited for: the model stays in
 * memory until its reader returns. */
PREFIX_API prefix_status prefix_engine_shutdown(prefix_engine* engine, int64_t timeout_ms,
                                                prefix_error* err);
/* [any thread] PREFIX_ENGINE_*; CLOSED for a bad handle. */
PREFIX_API int32_t prefix_engine_state(const prefix_engine* engine);
/* [any thread] {"model": {...}, "options": {...}, "device": ..., "isa": ..., "threads": n,
 * "cpus": text, "pool": true or false, "warnings": [...]}; options, threads and cpus as they are in
 * force, pool: whether the threads are of a prefix_pool; warnings: sentences about options that
 * have no effect, as a cache_disk that cannot be used, and about code that comes with a model and
 * is not run. In "model", "attention" is "causal", or "bidirectional" for a model that embeds and
 * classifies only; "dense_layers" counts those behind the pooling, "dense_width" is what they make
 * of a vector of "hidden" values, 0 without any, and "dense_of_tokens" is true where they are made
 * for the vectors of single tokens;
 * "declared" is what the model's own files say of its use:
 * {"format": "safetensors" or "GGUF", "names": [...], "architectures": [...], "model_type": text,
 *  "pooling": "last", "mean", "first", "rank" (a head), another word of the file, or "",
 *  "modules": [classes of modules.json], "prompts": {name: text before a text},
 *  "default_prompt": name, "labels": [of the head], "problem_type": what its logits are, or "",
 *  "true_token": id or -1, "false_token", "recipe": what is in prefix_recipe.json} */
PREFIX_API prefix_status prefix_engine_info_json(const prefix_engine* engine, char* buf, size_t cap,
                                                 size_t* needed, prefix_error* err);
/* What is often asked of that, as numbers. */
typedef struct prefix_engine_info {
  int32_t struct_size;
  int32_t layers, hidden, heads, kv_heads, head_dim;
  int32_t vocabulary;    /* token ids are smaller */
  int32_t max_positions; /* longest sequence in tokens, as it is in force */
  int32_t threads;       /* as it is in force; of the pool, if it was given one */
  int32_t page_tokens;   /* of a KV page */
  int64_t weight_bytes, kv_bytes_per_token;
  int64_t recurrent_layers, state_bytes; /* that a state takes of the cache; 0: there are none */
  int64_t labels; /* values of a request with option head; 0: the model has no such head */
} prefix_engine_info;
#define PREFIX_ENGINE_INFO_INIT \
  {(int32_t)sizeof(prefix_engine_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* [any thread] */
PREFIX_API prefix_status prefix_engine_get_info(const prefix_engine* engine,
                                                prefix_engine_info* out, prefix_error* err);
/* [any thread] The tokens after which the model's own files end a generation; option ignore_eos. */
PREFIX_API prefix_status prefix_engine_end_tokens(const prefix_engine* engine, prefix_token* out,
                                                  size_t capacity, size_t* needed,
                                                  prefix_error* err);
/* [any thread] */
PREFIX_API prefix_status prefix_engine_get_stats(const prefix_engine* engine,
                                                 prefix_engine_stats* out, prefix_error* err);
/* [any thread] The same in Prometheus text format, with histograms of the times and sizes of
 * requests; docs/metrics.md explains each. Each series has the label model_name (option name), so
 * that those of several engines can be told apart. The numbers move, so the text may have grown
 * since its size was asked for: call again then. */
PREFIX_API prefix_status prefix_metrics_text(const prefix_engine* engine, char* buf, size_t cap,
                                             size_t* needed, prefix_error* err);

/* ---- Namespaces ----------------------------------------------------------------------------- */

/* Nothing is shared across namespaces, ever: a tenant, an adapter, a salt. Requests name theirs
 * with the option "namespace"; the empty one is always there with id 0. */

/* [any thread] The id of a namespace, made when it is new. */
PREFIX_API prefix_status prefix_namespace_open(prefix_engine* engine, const char* name,
                                               size_t name_len, int32_t* ns, prefix_error* err);
/* [any thread] The same for a namespace of several parts: a tenant's salt, an adapter, the epoch of
 * its weights, and whatever else keeps prefixes apart. Part i is text[offsets[i] ..
 * offsets[i + 1]), with one offset more than parts. They are compared one by one: ("ab", "c") is
 * not ("a", "bc"). One part is the namespace of that name, no part the empty one. Requests name it
 * by option namespace_id, and not by namespace as well: adding such a request is an
 * INVALID_ARGUMENT. With option require_salt, requests in a namespace whose first part is empty are
 * refused. */
PREFIX_API prefix_status prefix_namespace_open_tuple(prefix_engine* engine, const char* text,
                                                     size_t text_len, const int64_t* offsets,
                                                     size_t n_offsets, int32_t* ns,
                                                     prefix_error* err);
/* [any thread] NOT_FOUND when it is not open. */
PREFIX_API prefix_status prefix_namespace_find(const prefix_engine* engine, const char* name,
                                               size_t name_len, int32_t* ns, prefix_error* err);
/* [any thread] Evicts everything in it that no running request uses and no lease keeps; *freed (may
 * be NULL) receives the tokens freed. */
PREFIX_API prefix_status prefix_namespace_drop(prefix_engine* engine, int32_t ns, int64_t* freed,
                                               prefix_error* err);
/* [any thread] Ends a namespace, so that one for each user takes no memory for the life of the
 * process. What it holds is evicted, its leases end, and its limits and its name are forgotten; its
 * id is never given again: whatever names it later gets NOT_FOUND. Requests that were submitted
 * before run to their end, and what they still use goes with the last of them. *freed (may be NULL)
 * receives the tokens freed by this call. Opening the name again, at once or later, makes a new,
 * empty namespace. Pages on disk and in a store stay: they are kept under the name, not the id, and
 * go as options cache_disk_bytes and the server's limits say. Errors: INVALID_ARGUMENT for id 0,
 * NOT_FOUND. */
PREFIX_API prefix_status prefix_namespace_close(prefix_engine* engine, int32_t ns, int64_t* freed,
                                                prefix_error* err);
/* [any thread] How many are open, with the empty one; after a shutdown, how many were. */
PREFIX_API prefix_status prefix_namespace_count(const prefix_engine* engine, int32_t* count,
                                                prefix_error* err);

/* ---- Adapters ------------------------------------------------------------------------------- */

/* LoRA: thin matrices that are added to those of the model for the requests that name them by
 * option adapter. A request with an adapter gets the same bits whatever other adapters its batch
 * has, and shares prefixes with requests of the same adapter only: an adapter is a part of the
 * namespace, by its content, so that nothing which one computed is ever found by another, nor by
 * another version of it, in memory, on disk, in a store or in a snapshot. docs/lora.md. */

/* [any thread] Loads an adapter under a name, on the calling thread, while requests run. path: a
 * PEFT directory with adapter_config.json and adapter_model.safetensors. A name that is there
 * stands for the new adapter from then on; requests that were submitted keep the one before.
 * Errors: INVALID_ARGUMENT for an empty name, NOT_FOUND, IO, FORMAT for files that contradict
 * themselves or the model, UNSUPPORTED_MODEL for what is no plain LoRA of attention and dense
 * feed-forward blocks, named, UNSUPPORTED_DEVICE for an engine that is not on a CPU,
 * OUT_OF_MEMORY. */
PREFIX_API prefix_status prefix_adapter_load(prefix_engine* engine, const char* name,
                                             size_t name_len, const char* path, size_t path_len,
                                             prefix_error* err);
/* [any thread] The same from files that are not in a file system: those that the source has now
 * under the two names. They are read until the call returns and not afterwards, by its thread and
 * others of the library; a reader must not shut this engine down. INVALID_ARGUMENT when the source
 * has no files. An adapter is the same however it was fed. */
PREFIX_API prefix_status prefix_adapter_load_source(prefix_engine* engine, const char* name,
                                                    size_t name_len, prefix_source* source,
                                                    prefix_error* err);
/* [any thread] Ends a name. Requests that were submitted run to their end; then, unless it has
 * another name, the adapter's memory is freed. What it left in the cache is evicted, and its
 * namespaces are closed. NOT_FOUND. */
PREFIX_API prefix_status prefix_adapter_unload(prefix_engine* engine, const char* name,
                                               size_t name_len, prefix_error* err);
/* [any thread] The id of the namespace in which requests of namespace `ns` with this adapter run,
 * for the functions of the cache; requests may name it by option namespace_id, and then no adapter.
 * Its limits are its own. Dropping or closing `ns` drops or closes it too. NOT_FOUND,
 * INVALID_ARGUMENT for an `ns` that is that of an adapter already. */
PREFIX_API prefix_status prefix_adapter_namespace(prefix_engine* engine, int32_t ns,
                                                  const char* name, size_t name_len,
                                                  int32_t* adapter_ns, prefix_error* err);
/* [any thread] Those that are loaded, by name:
 * [{"name": text, "part": last part of its namespaces, "matrices": pairs in the file,
 *   "bytes": n}] */
PREFIX_API prefix_status prefix_adapters_json(const prefix_engine* engine, char* buf, size_t cap,
                                              size_t* needed, prefix_error* err);

/* ---- Constraint ----------------------------------------------------------------------------- */

/* Which tokens may come next in a generation, as other code decides it: a grammar engine of the
 * program. One constraint serves any number of requests, and each generation has a state of its
 * own:
 *
 *   begin -> allow -> accept -> allow -> accept -> ... -> allow -> end
 *
 * What is allowed must follow from `user` and the tokens that were accepted: then rule 9 holds. The
 * calls come from threads of the library, one at a time for a state, those of several states at
 * once; the step of all requests that run waits for them. They must not throw, and call no function
 * of this header: some come under locks of the engine.
 *
 * Their polling twin is a loop of prefix_batch_add_generate with max_tokens = 1 and option
 * allowed_tokens, whose prompt ends with the tokens that there are. */
typedef struct prefix_constraint prefix_constraint;

/* A new state, before the first token of a generation. 0; any other number, here and in the next
 * two, ends the request with INVALID_ARGUMENT and a sentence that has the number. */
typedef int32_t (*prefix_constraint_begin)(void* user, void** state);
/* Sets bit i % 32 of mask[i / 32] where token i may come next. The mask has a bit for each token of
 * the model's vocabulary, words = (vocabulary + 31) / 32, and all of them are 0. Where the text may
 * end here, the model's end tokens are among those that are allowed; a mask of no token ends the
 * request with INVALID_ARGUMENT. */
typedef int32_t (*prefix_constraint_allow)(void* state, uint32_t* mask, size_t words);
/* The generation goes on behind this token; not called for the last one. */
typedef int32_t (*prefix_constraint_accept)(void* state, prefix_token token);
/* Once for each state, however the request ended. */
typedef void (*prefix_constraint_end)(void* state);
/* The last reference is gone, and every state has ended. */
typedef void (*prefix_constraint_free)(void* user);

typedef struct prefix_constraint_calls {
  int32_t struct_size;
  int32_t reserved;
  prefix_constraint_begin begin;
  prefix_constraint_allow allow;
  prefix_constraint_accept accept;
  prefix_constraint_end end;
  prefix_constraint_free release; /* may be NULL */
} prefix_constraint_calls;
#define PREFIX_CONSTRAINT_CALLS_INIT {(int32_t)sizeof(prefix_constraint_calls), 0, 0, 0, 0, 0, 0}

/* [any thread] The calls are copied. When this fails, `release` is not called. INVALID_ARGUMENT
 * when one of the others is NULL. */
PREFIX_API prefix_status prefix_constraint_create(const prefix_constraint_calls* calls, void* user,
                                                  prefix_constraint** out, prefix_error* err);
PREFIX_API prefix_status prefix_constraint_retain(prefix_constraint* constraint, prefix_error* err);
/* [any thread] Batches and jobs that have the constraint keep it. */
PREFIX_API void prefix_constraint_release(prefix_constraint* constraint);

/* ---- Batch ---------------------------------------------------------------------------------- */

/* Requests to be run together. Token arrays are copied. `options` of a request may be NULL;
 * user_tag comes back with results and events; *index (may be NULL) receives the request's number,
 * counting from 0. What is wrong with one request only (a token outside the vocabulary, a prompt
 * that is too long, ...) is reported with its result, not here. */
typedef struct prefix_batch prefix_batch;

/* [any thread] engine may be NULL: such a batch can be planned, not run. */
PREFIX_API prefix_status prefix_batch_create(prefix_engine* engine, prefix_batch** out,
                                             prefix_error* err);
PREFIX_API prefix_status prefix_batch_retain(prefix_batch* batch, prefix_error* err);
PREFIX_API void prefix_batch_release(prefix_batch* batch);
/* The rest of this section: [one thread per handle]. */
PREFIX_API prefix_status prefix_batch_clear(prefix_batch* batch, prefix_error* err);
PREFIX_API prefix_status prefix_batch_count(const prefix_batch* batch, size_t* count,
                                            prefix_error* err);

/* Raw logits of ids[n_ids] after the last token: one value per id. */
PREFIX_API prefix_status prefix_batch_add_logits(prefix_batch* batch, const prefix_token* tokens,
                                                 size_t n_tokens, const prefix_token* ids,
                                                 size_t n_ids, const prefix_options* options,
                                                 int64_t user_tag, size_t* index,
                                                 prefix_error* err);
/* log p(token i | tokens before i) for i in [from, n_tokens), from >= 1: n_tokens - from values.
 * They stay in the cache with their tokens: those that a request of this task or of choices has
 * asked for before have the same bits, and nothing is computed for them (but by recurrent
 * layers, which go over all tokens from the last state on where one is not known). With option
 * top_logprobs, which this task and the continuations below take too, they are computed again.
 * The last token is scored by the row of the one before it: it takes no row and no room in the
 * cache, which has the text without it. So it is with that of each choice and continuation: a
 * thousand choices of one token take the rows of their prompt alone. */
PREFIX_API prefix_status prefix_batch_add_logprobs(prefix_batch* batch, const prefix_token* tokens,
                                                   size_t n_tokens, int32_t from,
                                                   const prefix_options* options, int64_t user_tag,
                                                   size_t* index, prefix_error* err);
/* Choices after a prompt: choice i is choice_tokens[offsets[i] .. offsets[i + 1]), with
 * n_choices + 1 offsets. Values: the sum of log-probs of each choice; result_logprobs: those of all
 * their tokens in a row. The prompt is computed once. */
PREFIX_API prefix_status prefix_batch_add_choices(prefix_batch* batch, const prefix_token* tokens,
                                                  size_t n_tokens,
                                                  const prefix_token* choice_tokens,
                                                  size_t n_choice_tokens, const int64_t* offsets,
                                                  size_t n_offsets, const prefix_options* options,
                                                  int64_t user_tag, size_t* index,
                                                  prefix_error* err);
/* One prefix and many continuations, as in reranking: n_offsets - 1 requests, each scoring the
 * log-probs of its continuation (task logprobs with from = n_tokens). *index: the first of them;
 * request i gets user_tag + i. */
PREFIX_API prefix_status prefix_batch_add_continuations(
    prefix_batch* batch, const prefix_token* tokens, size_t n_tokens,
    const prefix_token* choice_tokens, size_t n_choice_tokens, const int64_t* offsets,
    size_t n_offsets, const prefix_options* options, int64_t user_tag, size_t* index,
    prefix_error* err);
/* Final hidden states: of the last token, or as option pooling says; with pooling = tokens the
 * vectors of all tokens, or of those that option positions lists, in a row. A pooled vector goes
 * through the Dense layers that the model's files have behind the pooling, and one of a single
 * token through those that are made for it (a listwise reranker's), unless option dense is false.
 * Options dimensions and normalize change each vector; with option head it is the logits of the
 * model's classification head instead, one for each label. Where others than the last token
 * are read, those that are in the cache are computed once more. */
PREFIX_API prefix_status prefix_batch_add_embedding(prefix_batch* batch, const prefix_token* tokens,
                                                    size_t n_tokens, const prefix_options* options,
                                                    int64_t user_tag, size_t* index,
                                                    prefix_error* err);
/* A continuation, by the options for generation. They change the model's logits in this order:
 * repetition_penalty, presence_penalty with frequency_penalty, logit_bias; then allowed_tokens,
 * min_tokens and a constraint forbid tokens; then a token is drawn by top_k, temperature, min_p,
 * top_p and seed. Where all are forbidden the request ends with INVALID_ARGUMENT. */
PREFIX_API prefix_status prefix_batch_add_generate(prefix_batch* batch, const prefix_token* tokens,
                                                   size_t n_tokens, const prefix_options* options,
                                                   int64_t user_tag, size_t* index,
                                                   prefix_error* err);
/* Request `index`, which generates, goes on with tokens that the constraint allows; NULL takes one
 * away. Each run of the batch begins with a new state. OUT_OF_RANGE for an index beyond the batch,
 * INVALID_ARGUMENT for a request that does not generate. */
PREFIX_API prefix_status prefix_batch_constrain(prefix_batch* batch, size_t index,
                                                prefix_constraint* constraint, prefix_error* err);
/* No result: the tokens are computed, or fetched from disk or store, and stay in the cache for
 * those who come later. */
PREFIX_API prefix_status prefix_batch_add_warm(prefix_batch* batch, const prefix_token* tokens,
                                               size_t n_tokens, const prefix_options* options,
                                               int64_t user_tag, size_t* index, prefix_error* err);
/* How the batch shares, without running it or looking into the cache:
 * {"requests": n, "tokens_given": n, "tokens_distinct": n, "tokens_scored": n,
 *  "nodes": [{"parent": i or -1, "start": position, "tokens": n,
 *             "requests": requests and choices that end here, "below": those that end at or below,
 *             "first": first few token ids}]}, parents first. tokens_distinct: rows of the prompts
 * when nothing is cached, the tokens of all nodes. tokens_scored: last tokens of texts and choices
 * that are only scored; they take no row and are in no node. */
PREFIX_API prefix_status prefix_batch_plan_json(const prefix_batch* batch, char* buf, size_t cap,
                                                size_t* needed, prefix_error* err);

/* ---- Run ------------------------------------------------------------------------------------ */

typedef struct prefix_job prefix_job;

/* [any thread; one thread per batch] Runs the batch and waits. Calls from several threads share
 * steps and prefixes. Nobody has the job before this returns, so that nothing but deadlines of its
 * requests or a shutdown of the engine ends it early: take prefix_submit for one that may be
 * cancelled. The batch may be changed or released afterwards; without requests it is done at once.
 * INVALID_ARGUMENT for a batch that was made for another engine, QUEUE_FULL, MISUSE (the engine
 * loads or is shut down), ENGINE_FAILED. */
PREFIX_API prefix_status prefix_run(prefix_engine* engine, const prefix_batch* batch,
                                    prefix_job** out, prefix_error* err);
/* The same without waiting: for prefix_job_wait, prefix_job_notify or prefix_job_next_event. */
PREFIX_API prefix_status prefix_submit(prefix_engine* engine, const prefix_batch* batch,
                                       prefix_job** out, prefix_error* err);

/* Everything below: [any thread]. */
PREFIX_API prefix_status prefix_job_retain(prefix_job* job, prefix_error* err);
/* The last release cancels what still runs, unless the job is detached. */
PREFIX_API void prefix_job_release(prefix_job* job);
/* To fire and forget: the job goes on after its last release, as long as something else keeps the
 * engine. Idempotent. */
PREFIX_API prefix_status prefix_job_detach(prefix_job* job, prefix_error* err);
/* timeout_ms < 0 waits without limit, 0 only looks. TIMEOUT when requests are still unfinished. */
PREFIX_API prefix_status prefix_job_wait(prefix_job* job, int64_t timeout_ms, prefix_error* err);
/* Puts the tag into the queue when the job is done, however it ended; at once when it is. Each call
 * brings one tag. */
PREFIX_API prefix_status prefix_job_notify(prefix_job* job, prefix_queue* queue, int64_t tag,
                                           prefix_error* err);
/* Idempotent. The requests end before the next step. When nothing else runs, the step under way is
 * given up too, at the next layer or block of what is read. */
PREFIX_API prefix_status prefix_job_cancel(prefix_job* job, prefix_error* err);
PREFIX_API prefix_status prefix_job_cancel_request(prefix_job* job, size_t index,
                                                   prefix_error* err);
PREFIX_API prefix_status prefix_job_count(const prefix_job* job, size_t* count, prefix_error* err);
PREFIX_API prefix_status prefix_job_finished_count(const prefix_job* job, size_t* count,
                                                   prefix_error* err);

/* LOST: `count` TOKEN events of the job are gone, as more than 1,048,576 waited to be read. Results
 * have all tokens. */
enum {
  PREFIX_EVENT_STARTED = 0,
  PREFIX_EVENT_TOKEN = 1,
  PREFIX_EVENT_LOST = 2,
  PREFIX_EVENT_FINISHED = 3,
  PREFIX_EVENT_ERROR = 4,
  PREFIX_EVENT_TEXT = 5 /* only of tasks (prefix_text.h) */
};

typedef struct prefix_event {
  int32_t struct_size;
  int32_t kind;    /* PREFIX_EVENT_* */
  int64_t request; /* index in the batch; -1: LOST */
  int64_t user_tag;
  prefix_token token; /* TOKEN */
  float logprob;      /* TOKEN, with option logprobs */
  int32_t status;     /* FINISHED, ERROR */
  int32_t reserved;
  int64_t cached; /* FINISHED, ERROR: tokens */
  int64_t computed;
  int64_t count;   /* LOST */
  int64_t time_us; /* monotonic clock */
} prefix_event;
#define PREFIX_EVENT_INIT {(int32_t)sizeof(prefix_event), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* The next event, waiting as prefix_job_wait does. TIMEOUT: none yet. NO_EVENT: the job is done and
 * there will be no more. */
PREFIX_API prefix_status prefix_job_next_event(prefix_job* job, int64_t timeout_ms,
                                               prefix_event* event, prefix_error* err);
/* Puts the tag into the queue when the job has an event to read or is done, at once when it is so,
 * and again each time after prefix_job_next_event has answered TIMEOUT: whoever gets the tag reads
 * until TIMEOUT, and then waits for the next one, or until NO_EVENT, after which none comes. A job
 * has one such notice: a later call takes the place of the one before, whose tag may be in its
 * queue already. */
PREFIX_API prefix_status prefix_job_notify_events(prefix_job* job, prefix_queue* queue, int64_t tag,
                                                  prefix_error* err);

/* ---- Results -------------------------------------------------------------------------------- */

enum {
  PREFIX_FINISH_NONE = 0,
  PREFIX_FINISH_STOP = 1,
  PREFIX_FINISH_LENGTH = 2,
  PREFIX_FINISH_CANCELLED = 3,
  PREFIX_FINISH_ERROR = 4
};

enum {
  PREFIX_RESULT_CUT = 1 /* only of tasks (prefix_text.h): the prompt was cut to fit */
};

typedef struct prefix_result_info {
  int32_t struct_size;
  int32_t status; /* of this request */
  int32_t finish; /* PREFIX_FINISH_*; why generation ended */
  int32_t flags;  /* PREFIX_RESULT_* */
  int64_t user_tag;
  /* prompt_tokens = cached + shared + computed. cached: found computed before this batch; shared:
   * computed in this batch for another request; computed: for this one, or a last token that is
   * only scored. */
  int64_t prompt_tokens, cached_tokens, shared_tokens, computed_tokens, generated_tokens;
  int64_t queue_us, first_us, total_us; /* since submission: first step, first result, end */
  int64_t seed;                         /* generate: of its draws */
  /* Why tokens of the prompt were computed, by the reasons of prefix_engine_stats, whose counters
   * are the sums of these: together they are computed_tokens. With sharing=false all are 0. */
  int64_t miss_first_seen, miss_namespace, miss_budget, miss_evicted, miss_granularity, miss_state;
  /* generate, with option draft_tokens: tokens that were guessed and checked, and those of them
   * that the model said as well. */
  int64_t draft_tokens, draft_tokens_accepted;
} prefix_result_info;
#define PREFIX_RESULT_INFO_INIT         \
  {(int32_t)sizeof(prefix_result_info), \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0,                                   \
   0}

/* What the whole job did; complete when it is done. */
typedef struct prefix_job_totals {
  int32_t struct_size;
  int32_t reserved;
  int64_t requests, failed;
  int64_t tokens_given, tokens_computed, tokens_cached, tokens_shared, tokens_generated;
  int64_t steps, rows;
  int64_t total_us; /* from submission to the last result */
} prefix_job_totals;
#define PREFIX_JOB_TOTALS_INIT {(int32_t)sizeof(prefix_job_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* MISUSE while the request is unfinished, OUT_OF_RANGE for an index beyond the batch. Values,
 * tokens and logprobs of a request that failed are failures too: with its status and its sentence.
 * result_info tells of every request; that it failed is in out->status. */
PREFIX_API prefix_status prefix_job_result_info(const prefix_job* job, size_t index,
                                                prefix_result_info* out, prefix_error* err);
/* The sentence that goes with a status that is not OK; "" when it is. */
PREFIX_API prefix_status prefix_job_result_message(const prefix_job* job, size_t index, char* buf,
                                                   size_t cap, size_t* needed, prefix_error* err);
/* logits: one per id. logprobs: one per scored token. choices: one sum per choice. embedding: the
 * vector. generate: empty. */
PREFIX_API prefix_status prefix_job_result_values(const prefix_job* job, size_t index, float* out,
                                                  size_t capacity, size_t* needed,
                                                  prefix_error* err);
/* generate: the tokens, with the one that stopped it. */
PREFIX_API prefix_status prefix_job_result_tokens(const prefix_job* job, size_t index,
                                                  prefix_token* out, size_t capacity,
                                                  size_t* needed, prefix_error* err);
/* generate with option logprobs: one per token. choices: one per token of all choices in a row. */
PREFIX_API prefix_status prefix_job_result_logprobs(const prefix_job* job, size_t index, float* out,
                                                    size_t capacity, size_t* needed,
                                                    prefix_error* err);
/* generate: the tokens that there are, also of a request that was cancelled or ran out of time. */
PREFIX_API prefix_status prefix_job_partial_tokens(const prefix_job* job, size_t index,
                                                   prefix_token* out, size_t capacity,
                                                   size_t* needed, prefix_error* err);
/* generate and logprobs with option top_logprobs = k: the k likeliest tokens and their log-probs
 * for each place, that of a token which was generated or scored. Those of place p are [p * k,
 * (p + 1) * k), the likeliest first, equal ones by their ids. They are the model's own, before
 * options change its logits: the token that was drawn need not be among them. *needed: k times the
 * places. tokens and logprobs may each be NULL with capacity 0. */
PREFIX_API prefix_status prefix_job_result_top(const prefix_job* job, size_t index,
                                               prefix_token* tokens, size_t capacity,
                                               size_t* needed, float* logprobs,
                                               size_t capacity_logprobs, prefix_error* err);
/* generate: the k of one place, as soon as its TOKEN event can be read, and however the request
 * ends. OUT_OF_RANGE for a place that is not there. */
PREFIX_API prefix_status prefix_job_partial_top(const prefix_job* job, size_t index, size_t place,
                                                prefix_token* tokens, size_t capacity,
                                                size_t* needed, float* logprobs,
                                                size_t capacity_logprobs, prefix_error* err);
/* All values of all requests in one array, request after request: one call per batch. A request
 * that failed has as many as it would have had, all NaN. offsets (capacity_offsets entries; needs
 * prefix_job_count + 1) receives where each request begins; may be NULL with capacity_offsets 0.
 * The job must be done. */
PREFIX_API prefix_status prefix_job_all_values(const prefix_job* job, float* out, size_t capacity,
                                               size_t* needed, int64_t* offsets,
                                               size_t capacity_offsets, prefix_error* err);
/* OK when no request failed; otherwise the status and the sentence of the first one that did, and
 * *index (may be NULL) its number. The job must be done: a call that fails itself, with MISUSE for
 * one that is not, leaves *index as it is; SIZE_MAX put there before tells the two apart. */
PREFIX_API prefix_status prefix_job_first_failure(const prefix_job* job, size_t* index,
                                                  prefix_error* err);
PREFIX_API prefix_status prefix_job_get_totals(const prefix_job* job, prefix_job_totals* out,
                                               prefix_error* err);

/* ---- Cache ---------------------------------------------------------------------------------- */

typedef struct prefix_cache_info {
  int32_t struct_size;
  int32_t reserved;
  /* Longest prefix that is computed. Of a model with recurrent layers: the longest one of it that
   * ends at a state, from which a request goes on. */
  int64_t cached_tokens;
  int64_t pending_tokens; /* tokens behind what is computed that are being computed now */
} prefix_cache_info;
#define PREFIX_CACHE_INFO_INIT {(int32_t)sizeof(prefix_cache_info), 0, 0, 0}

/* [any thread] A pure read: does not change the order of eviction. Of a model that rotates long
 * texts in another way than short ones (longrope) it tells what a request finds that is as long as
 * these tokens: one counts max_tokens, or its longest choice, as well, so look up as many tokens
 * more, whichever they are. So do the next function and prefix_cache_pin. */
PREFIX_API prefix_status prefix_cache_lookup(const prefix_engine* engine, int32_t ns,
                                             const prefix_token* tokens, size_t n_tokens,
                                             prefix_cache_info* out, prefix_error* err);
/* [any thread] cached_tokens of many prompts at once: prompt i is tokens[offsets[i] ..
 * offsets[i + 1]), with one offset more than prompts; cached receives one number for each. */
PREFIX_API prefix_status prefix_cache_lookup_many(const prefix_engine* engine, int32_t ns,
                                                  const prefix_token* tokens, size_t n_tokens,
                                                  const int64_t* offsets, size_t n_offsets,
                                                  int64_t* cached, size_t capacity, size_t* needed,
                                                  prefix_error* err);
/* What a namespace holds: tokens, and the bytes of their keys and values; and its limits. */
typedef struct prefix_cache_usage {
  int32_t struct_size;
  int32_t reserved;
  int64_t tokens, bytes;
  int64_t floor_bytes, quota_bytes;
} prefix_cache_usage;
#define PREFIX_CACHE_USAGE_INIT {(int32_t)sizeof(prefix_cache_usage), 0, 0, 0, 0, 0}

/* [any thread] What of the cache a namespace uses. Errors: NOT_FOUND for a namespace that is not
 * open, here and below. */
PREFIX_API prefix_status prefix_cache_get_usage(const prefix_engine* engine, int32_t ns,
                                                prefix_cache_usage* out, prefix_error* err);
/* [any thread] Others do not evict the namespace below floor_bytes, and it never holds more than
 * quota_bytes (0: no quota): a request that does not fit gets CACHE_FULL. Of what requests or
 * leases hold when a lower quota comes, what is beyond it goes as soon as they end. Errors:
 * OUT_OF_RANGE for a negative number, a quota smaller than one token, a floor above the quota. */
PREFIX_API prefix_status prefix_cache_set_limits(prefix_engine* engine, int32_t ns,
                                                 int64_t floor_bytes, int64_t quota_bytes,
                                                 prefix_error* err);
/* [any thread] Keeps the longest computed prefix of these tokens in the cache for ttl_ms (0: until
 * it is given back); of a model with recurrent layers the one that ends at a state, and the state,
 * see cached_tokens. *lease: its number, for prefix_cache_unpin; *pinned (may be NULL): tokens that
 * stay, and nothing that continues them. Pins add up: a prefix goes when the last lease on it has
 * ended. What is pinned counts against cache_bytes: with all of it pinned, requests get CACHE_FULL.
 * May wait for the end of the step that runs. Errors: NOT_FOUND when nothing of it is computed,
 * OUT_OF_RANGE for a negative ttl_ms. */
PREFIX_API prefix_status prefix_cache_pin(prefix_engine* engine, int32_t ns,
                                          const prefix_token* tokens, size_t n_tokens,
                                          int64_t ttl_ms, int64_t* lease, int64_t* pinned,
                                          prefix_error* err);
/* [any thread] Errors: NOT_FOUND for a lease that does not exist or has ended. */
PREFIX_API prefix_status prefix_cache_unpin(prefix_engine* engine, int64_t lease,
                                            prefix_error* err);
/* [any thread] Evicts what continues these tokens (with n_tokens 0: the whole namespace), as far as
 * no request uses and no lease keeps it; the tokens themselves stay. *freed (may be NULL):
 * tokens. */
PREFIX_API prefix_status prefix_cache_evict(prefix_engine* engine, int32_t ns,
                                            const prefix_token* tokens, size_t n_tokens,
                                            int64_t* freed, prefix_error* err);
/* [any thread] Evicts prefixes in the order of the option cache_policy until at most target_bytes
 * (>= 0) are held or all that is left is in use, pinned or below the floor of its namespace; *freed
 * (may be NULL): tokens. */
PREFIX_API prefix_status prefix_cache_trim(prefix_engine* engine, int64_t target_bytes,
                                           int64_t* freed, prefix_error* err);
/* [any thread] The tree, to look at:
 * {"tokens": n, "nodes": [{"node": its number, "parent": that of the node before it or -1,
 *  "start": position of its first token, "tokens": n, "computed": n of them,
 *  "held": requests and pins that keep it, "uses": n, ...}]},
 * in no order; without a parent also "namespace": text. The command prefix tree --from paints
 * it. */
PREFIX_API prefix_status prefix_cache_tree_json(const prefix_engine* engine, char* buf, size_t cap,
                                                size_t* needed, prefix_error* err);

/* Cache events tell those who route requests what is in memory here, block by block: a block is
 * cache_event_tokens tokens of a path, with recurrent layers only as deep as a state of them is
 * kept. The engine keeps the last cache_events of them (options of the engine); without that option
 * these functions answer MISUSE. */
enum {
  PREFIX_CACHE_STORED = 0,  /* after the stored event of its parent */
  PREFIX_CACHE_REMOVED = 1, /* before that of its parent */
  PREFIX_CACHE_CLEARED = 2  /* nothing is left in any namespace */
};
typedef struct prefix_cache_event {
  int32_t struct_size;
  int32_t kind;     /* PREFIX_CACHE_* */
  int64_t sequence; /* counts up without gaps */
  int64_t block;    /* its name, > 0: the same in every process with this model and namespace */
  int64_t parent;   /* STORED: the block before it on its path; 0: it is the first one */
  int32_t ns;       /* namespace */
  int32_t position; /* of its first token */
  int64_t time_us;  /* monotonic clock */
} prefix_cache_event;
#define PREFIX_CACHE_EVENT_INIT {(int32_t)sizeof(prefix_cache_event), 0, 0, 0, 0, 0, 0, 0}

/* [any thread] The first event that is kept with a sequence of at least `from` (0 for the oldest),
 * and for a stored one the tokens of its block. Go on with event->sequence + 1; more than was asked
 * for says that events were lost in between: dump, and go on with what the dump says. Any number of
 * readers, each with its own `from`. NO_EVENT: none yet. */
PREFIX_API prefix_status prefix_cache_next_event(const prefix_engine* engine, int64_t from,
                                                 prefix_cache_event* event, prefix_token* tokens,
                                                 size_t capacity, size_t* needed,
                                                 prefix_error* err);
/* [any thread] All blocks that are in memory, one line of JSON each, parents first:
 * {"block": n, "parent": n, "namespace": n, "position": n, "tokens": [...]}, and a last line
 * {"next": sequence} from which events go on. */
PREFIX_API prefix_status prefix_cache_dump_events(const prefix_engine* engine, char* buf,
                                                  size_t cap, size_t* needed, prefix_error* err);

/* ---- Snapshots ------------------------------------------------------------------------------ */

typedef struct prefix_snapshot_info {
  int32_t struct_size;
  int32_t reserved;
  int64_t namespaces, nodes, tokens; /* that were saved or loaded */
  int64_t states;                    /* of recurrent layers, that were saved or loaded */
  int64_t bytes;                     /* saved: of the file */
  int64_t skipped_tokens;            /* loaded: for which there was no room, or that were damaged */
} prefix_snapshot_info;
#define PREFIX_SNAPSHOT_INFO_INIT {(int32_t)sizeof(prefix_snapshot_info), 0, 0, 0, 0, 0, 0, 0}

/* [any thread] Saves what these namespaces (n_ns 0: all) have in the cache, so that a later process
 * starts warm. The engine goes on meanwhile. The file appears under its name when it is complete.
 * out may be NULL. Errors: NOT_FOUND for a namespace, IO, INVALID_ARGUMENT when a folder, a device
 * or a pipe has that name, MISUSE when another save to the same path runs or the engine shares
 * nothing. */
PREFIX_API prefix_status prefix_snapshot_save(prefix_engine* engine, const char* path,
                                              size_t path_len, const int32_t* ns, size_t n_ns,
                                              prefix_snapshot_info* out, prefix_error* err);
/* [any thread] Loads a snapshot beside what is in the cache. Nothing is evicted for it: it begins
 * with what was used last, and ends when the cache is full. Every page is checked; what is damaged
 * is left out. What of it was there already has no time to live any more (cache_ttl_ms). The engine
 * goes on meanwhile. out may be NULL. Errors: NOT_FOUND, IO, FORMAT for a damaged file,
 * INCOMPATIBLE_SNAPSHOT for one of another model, number type, device or instruction-set level;
 * nothing is loaded then. What belongs to a namespace that is closed meanwhile is skipped. */
PREFIX_API prefix_status prefix_snapshot_load(prefix_engine* engine, const char* path,
                                              size_t path_len, prefix_snapshot_info* out,
                                              prefix_error* err);

/* ---- Simulation ----------------------------------------------------------------------------- */

/* The cache's tree without a model: replays operations or a trace, to size a cache before buying
 * memory for it, and to check the tree from outside. `prefix cache-sim` is this and a parser.
 * A simulation is used by one thread at a time; a second one at once is answered with MISUSE. */
typedef struct prefix_sim prefix_sim;

/* options: a JSON object, {} or NULL for the defaults: "policy" ("lru"; also lfu, fifo, mru, filo,
 * slru, priority, gdsf, gds), "page" (1; atoms that are matched as one), "capacity" (0 = no limit;
 * in tokens, of which whole pages are used; never exceeded without compat), "bigram" (false),
 * "compat" ("", or "sglang": behave as SGLang's radix cache where ours differs on purpose).
 * Errors: INVALID_ARGUMENT for another key or value, naming it; OUT_OF_RANGE for a number beyond
 * its limits.
 *
 * With "hybrid" it is the cache of a model with recurrent layers, which holds states beside keys
 * and values. "hybrid" is an object with what the model costs: "recurrent_layers" (24),
 * "attention_layers" (4), "mlp_layers" (28), "width" (4096), "state_width" (128); "state_bytes"
 * (of all layers at one position) and "kv_bytes" (of a token) instead of what follows from these,
 * and likewise FLOPs of a token in a layer: "recurrent_flops", "attention_flops",
 * "attention_flops_squared" (times the tokens before), "mlp_flops". The other keys are then
 * "policy" ("auto": the one of lru, gds and gdsf that saved the most lately; lru, leaf-lru,
 * marconi, gds, gdsf, block), "alpha" (marconi: this one instead of one that is tuned), "capacity"
 * (bytes), "admission" (["branch", "end"]: where states are taken; also "prompt", the end of the
 * prompt, and "placed", where later requests are likely to diverge from this one), "max_placed" (1;
 * of these, for a request), "max_states" (0; that a path keeps), "compat" ("", or "marconi": the
 * rules of Marconi's experiments), and with it "pitfalls" ([9]; also 3, 4, 5: what its published
 * code does otherwise than its paper). */
PREFIX_API prefix_status prefix_sim_create(const char* options, size_t length, prefix_sim** out,
                                           prefix_error* err);
/* One operation, a JSON object: {"op": "match" | "insert" | "lock" | "unlock", "tokens": [...],
 * "ns": ""} (insert also "priority" and "slots"), {"op": "evict", "n": 5}, {"op": "reset"}, {"op":
 * "dump"}, {"op": "stats"}; of a hybrid model only "stats". Errors: INVALID_ARGUMENT for what is
 * no operation, OUT_OF_RANGE for a number, CACHE_FULL for an insertion that cannot fit,
 * OUT_OF_MEMORY, MISUSE for an unlock without a lock. An insertion that fails changes nothing; the
 * simulation goes on. */
PREFIX_API prefix_status prefix_sim_apply(prefix_sim* sim, const char* operation, size_t length,
                                          prefix_error* err);
/* The result of the last operation that succeeded, one line of JSON without a line end: what it
 * returned ("matched", "slots", "freed", "nodes", ...), and always "evictable", "protected",
 * "total" (tokens) and "tick". Before the first operation only these. */
PREFIX_API prefix_status prefix_sim_result(const prefix_sim* sim, char* buf, size_t cap,
                                           size_t* needed, prefix_error* err);
/* One request of a trace in the namespace of this name (NULL with 0: ""): tokens are its prompt
 * followed by its answer. *reused: tokens of the prompt that were in the cache; the last one
 * always counts as computed (not with "marconi"). A hybrid simulation that returned OUT_OF_MEMORY
 * once serves no more requests. */
PREFIX_API prefix_status prefix_sim_request(prefix_sim* sim, const char* name, size_t name_length,
                                            const prefix_token* tokens, size_t n_tokens,
                                            size_t n_prompt, int64_t* reused, prefix_error* err);
PREFIX_API prefix_status prefix_sim_retain(prefix_sim* sim, prefix_error* err);
PREFIX_API void prefix_sim_release(prefix_sim* sim);

/* ---- Order and parts ------------------------------------------------------------------------ */

/* What a batch shares, and how to lay out prompts so that it shares more: by arithmetic alone,
 * without an engine or a model. `prefix order` and `prefix partition` are these and a parser. They
 * take time and memory by the size of what they are given, and keep nothing. */

typedef struct prefix_order_info {
  int32_t struct_size;
  int32_t reserved;
  int64_t tokens;     /* of all cells */
  int64_t hit_before; /* that prompts share with the one before, in the order given */
  int64_t hit;        /* in the order found; never fewer */
} prefix_order_info;
#define PREFIX_ORDER_INFO_INIT {(int32_t)sizeof(prefix_order_info), 0, 0, 0, 0}

/* [any thread] The order of the rows of a table, and of the columns within each row, in which the
 * prompts made of them share the longest prefixes with the one before. Cell c of row r is
 * values[r * n_columns + c]: any number that stands for its text, such as an index or a hash; equal
 * numbers in one column are equal cells. lengths: tokens (or bytes) of each cell; NULL with 0
 * counts each as 1. rows (room for one number for each row) receives the row of each prompt,
 * columns (one for each cell) its columns as they stand in it, prompt after prompt; out may be
 * NULL. A prompt has to name the columns, since they stand otherwise in each. Errors:
 * INVALID_ARGUMENT for no rows or no columns, values that are not whole rows, other than one length
 * for each value, and a value with two lengths; OUT_OF_RANGE for a negative length, more than 65536
 * columns or 2147483647 rows. */
PREFIX_API prefix_status prefix_order(const int64_t* values, size_t n_values,
                                      const int32_t* lengths, size_t n_lengths, size_t n_columns,
                                      int64_t* rows, size_t capacity_rows, int32_t* columns,
                                      size_t capacity_columns, prefix_order_info* out,
                                      prefix_error* err);

typedef struct prefix_partition_info {
  int32_t struct_size;
  int32_t reserved;
  int64_t tokens;   /* of all prompts */
  int64_t distinct; /* of them: what one worker would compute */
  int64_t computed; /* by all parts together; what is above `distinct` is computed more than once */
  int64_t largest;  /* by the part that computes the most */
} prefix_partition_info;
#define PREFIX_PARTITION_INFO_INIT {(int32_t)sizeof(prefix_partition_info), 0, 0, 0, 0, 0}

/* [any thread] Shares prompts out among n_parts workers that each have a cache of their own: parts
 * of about equal work (different tokens), cut where the fewest tokens are computed more than once.
 * Prompt i is tokens[offsets[i] .. offsets[i + 1]). parts receives the part of each prompt; order
 * the numbers of the prompts, part after part, those that share prefixes beside each other; work
 * what each part computes: one number for each prompt, prompt and part. Of more parts than prompts
 * some stay empty.
 *
 * Parts are cuts of the prompts sorted by their tokens; of other ways to share prompts out, some
 * may be more even where prompts are few.
 *
 * balance (0 stands for 1.05): a part has at most so many times the mean of the different tokens.
 * Where a heavy prompt or prefix leaves no such cuts, at most so many times the least that the
 * largest part of any cuts has: a prefix that is long against what follows it stays in one part,
 * because each further one would compute it again. Errors: OUT_OF_RANGE for offsets, a token,
 * n_parts outside [1, 1048576], a balance outside [1, 1000000]; INVALID_ARGUMENT. */
PREFIX_API prefix_status prefix_partition(const prefix_token* tokens, size_t n_tokens,
                                          const int64_t* offsets, size_t n_offsets, int32_t n_parts,
                                          double balance, int32_t* parts, size_t capacity_parts,
                                          int64_t* order, size_t capacity_order, int64_t* work,
                                          size_t capacity_work, prefix_partition_info* out,
                                          prefix_error* err);

typedef struct prefix_estimate_info {
  int32_t struct_size;
  int32_t reserved;
  int64_t tokens;   /* of all prompts */
  int64_t computed; /* by an engine that has nothing of them in its cache */
} prefix_estimate_info;
#define PREFIX_ESTIMATE_INFO_INIT {(int32_t)sizeof(prefix_estimate_info), 0, 0, 0}

/* [any thread] What a batch of prompts costs; prompts as for prefix_partition. computed receives
 * one number for each prompt: its tokens without those that a prompt before it has, as usage counts
 * them when the prompts are requests of one batch in one namespace. Choices, continuations and what
 * is generated come on top. Errors: as prefix_partition. */
PREFIX_API prefix_status prefix_estimate_batch(const prefix_token* tokens, size_t n_tokens,
                                               const int64_t* offsets, size_t n_offsets,
                                               int64_t* computed, size_t capacity,
                                               prefix_estimate_info* out, prefix_error* err);

/* ---- All functions -------------------------------------------------------------------------- */

/* X(name) for every function above: feeds the version script, the export test and programs that
 * resolve the library at run time. */
/* clang-format off */
#define PREFIX_FUNCTIONS(X) \
  X(prefix_version) \
  X(prefix_version_string) \
  X(prefix_abi_version) \
  X(prefix_build_info) \
  X(prefix_feature_count) \
  X(prefix_feature_name) \
  X(prefix_has_feature) \
  X(prefix_status_name) \
  X(prefix_status_is_retryable) \
  X(prefix_options_create) \
  X(prefix_options_retain) \
  X(prefix_options_release) \
  X(prefix_options_set) \
  X(prefix_options_set_int) \
  X(prefix_options_set_double) \
  X(prefix_options_set_bool) \
  X(prefix_options_set_ints) \
  X(prefix_options_set_texts) \
  X(prefix_options_set_json) \
  X(prefix_options_get) \
  X(prefix_options_json) \
  X(prefix_option_count) \
  X(prefix_option_info) \
  X(prefix_pool_create) \
  X(prefix_pool_retain) \
  X(prefix_pool_release) \
  X(prefix_options_set_pool) \
  X(prefix_set_log_callback) \
  X(prefix_set_log_level) \
  X(prefix_log_next) \
  X(prefix_log_write) \
  X(prefix_device_count) \
  X(prefix_device_info) \
  X(prefix_queue_create) \
  X(prefix_queue_retain) \
  X(prefix_queue_release) \
  X(prefix_queue_next) \
  X(prefix_queue_post) \
  X(prefix_queue_descriptor) \
  X(prefix_source_create) \
  X(prefix_source_retain) \
  X(prefix_source_release) \
  X(prefix_source_add_buffer) \
  X(prefix_source_add_reader) \
  X(prefix_model_info_json) \
  X(prefix_engine_estimate) \
  X(prefix_engine_create) \
  X(prefix_engine_open) \
  X(prefix_engine_open_source) \
  X(prefix_engine_wait) \
  X(prefix_engine_notify) \
  X(prefix_engine_retain) \
  X(prefix_engine_release) \
  X(prefix_engine_shutdown) \
  X(prefix_engine_state) \
  X(prefix_engine_info_json) \
  X(prefix_engine_get_info) \
  X(prefix_engine_end_tokens) \
  X(prefix_engine_get_stats) \
  X(prefix_metrics_text) \
  X(prefix_namespace_open) \
  X(prefix_namespace_open_tuple) \
  X(prefix_namespace_find) \
  X(prefix_namespace_drop) \
  X(prefix_namespace_close) \
  X(prefix_namespace_count) \
  X(prefix_adapter_load) \
  X(prefix_adapter_load_source) \
  X(prefix_adapter_unload) \
  X(prefix_adapter_namespace) \
  X(prefix_adapters_json) \
  X(prefix_constraint_create) \
  X(prefix_constraint_retain) \
  X(prefix_constraint_release) \
  X(prefix_batch_create) \
  X(prefix_batch_retain) \
  X(prefix_batch_release) \
  X(prefix_batch_clear) \
  X(prefix_batch_count) \
  X(prefix_batch_add_logits) \
  X(prefix_batch_add_logprobs) \
  X(prefix_batch_add_choices) \
  X(prefix_batch_add_continuations) \
  X(prefix_batch_add_embedding) \
  X(prefix_batch_add_generate) \
  X(prefix_batch_constrain) \
  X(prefix_batch_add_warm) \
  X(prefix_batch_plan_json) \
  X(prefix_run) \
  X(prefix_submit) \
  X(prefix_job_retain) \
  X(prefix_job_release) \
  X(prefix_job_detach) \
  X(prefix_job_wait) \
  X(prefix_job_notify) \
  X(prefix_job_cancel) \
  X(prefix_job_cancel_request) \
  X(prefix_job_count) \
  X(prefix_job_finished_count) \
  X(prefix_job_next_event) \
  X(prefix_job_notify_events) \
  X(prefix_job_result_info) \
  X(prefix_job_result_message) \
  X(prefix_job_result_values) \
  X(prefix_job_result_tokens) \
  X(prefix_job_result_logprobs) \
  X(prefix_job_partial_tokens) \
  X(prefix_job_result_top) \
  X(prefix_job_partial_top) \
  X(prefix_job_all_values) \
  X(prefix_job_first_failure) \
  X(prefix_job_get_totals) \
  X(prefix_cache_lookup) \
  X(prefix_cache_lookup_many) \
  X(prefix_cache_get_usage) \
  X(prefix_cache_set_limits) \
  X(prefix_cache_pin) \
  X(prefix_cache_unpin) \
  X(prefix_cache_evict) \
  X(prefix_cache_trim) \
  X(prefix_cache_tree_json) \
  X(prefix_cache_next_event) \
  X(prefix_cache_dump_events) \
  X(prefix_snapshot_save) \
  X(prefix_snapshot_load) \
  X(prefix_sim_create) \
  X(prefix_sim_apply) \
  X(prefix_sim_result) \
  X(prefix_sim_request) \
  X(prefix_sim_retain) \
  X(prefix_sim_release) \
  X(prefix_order) \
  X(prefix_partition) \
  X(prefix_estimate_batch)
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif /* PREFIX_H */
