/* prefix_text.h - tokenizers, chat templates and ready-made tasks for the models that prefix.h
 * runs.
 *
 * prefix.h takes token ids. This library, libprefix_text.so, makes them from text and makes text
 * from them: exactly as the Hugging Face packages do, from a Hugging Face directory, a
 * tokenizer.json or the metadata of a GGUF file. It is optional and stands alone: it needs nothing
 * but libc.
 *
 *   #include <prefix_text.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     const char* messages = "[{\"role\": \"user\", \"content\": \"What is a prefix tree?\"}]";
 *     prefix_token tokens[256];
 *     size_t n;
 *     prefix_error err = PREFIX_ERROR_INIT;
 *     prefix_tokenizer* tokenizer = NULL;
 *     if (prefix_tokenizer_open("model.gguf", PREFIX_NUL, &tokenizer, &err) != PREFIX_OK ||
 *         prefix_tokenizer_chat_tokens(tokenizer, messages, PREFIX_NUL, NULL, 0, tokens, 256, &n,
 *                                      NULL, 0, &err) != PREFIX_OK) {
 *       fprintf(stderr, "%s\n", err.message);
 *     } else {
 *       printf("%d tokens\n", (int)n);
 *     }
 *     prefix_tokenizer_release(tokenizer);
 *     return 0;
 *   }
 *
 * The rules at the top of prefix.h hold here too: opaque handles that may be released in any order,
 * a status and a caller-owned prefix_error (written only on failure), UTF-8 with a length or
 * PREFIX_NUL, output into the caller's buffer whole or not at all, no output on stdout or stderr,
 * no panic and no exception across this interface. Besides:
 *
 *  1. Text that is not UTF-8 is PREFIX_ERR_INVALID_UTF8 and the message names the byte.
 *  2. Models are not trusted. Files, templates and texts that would take unreasonable time or
 *     memory are refused with a status: texts and JSON beyond 16 MiB, templates beyond 256 KiB,
 *     templates that compute too long or produce too much. What a tokenizer may take follows from
 *     the length of the text: on the way to tokens it may become 32 times as long and 64 KiB more,
 *     and its steps may take 2 seconds of processor time and 20 microseconds more for each byte
 *     (OUT_OF_RANGE). Memory is asked for before a step begins, for its worst case: where it is not
 *     there, as under a limit on the address space, the call ends with OUT_OF_MEMORY and the
 *     process goes on.
 *  3. A tokenizer never changes once it is open, and the library starts no threads of its own that
 *     outlive a call. To encode on many cores, call from many threads.
 *  4. Encoding "AB" is not encoding "A" and then "B". Where a shared prefix must stay the same in
 *     tokens, encode its parts in separate calls and join the ids, or take the boundaries that
 *     prefix_tokenizer_chat_tokens returns.
 */
#ifndef PREFIX_TEXT_H
#define PREFIX_TEXT_H

#include "prefix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ------------------------------------------------------------------------------- */

/* Grows as PREFIX_ABI_VERSION does: a program runs with any library that answers at least this. */
#define PREFIX_TEXT_ABI_VERSION 1

/* [any thread] Check this first after dlopen. */
PREFIX_API int32_t prefix_text_abi_version(void);
/* [any thread] "major.minor.patch" of the loaded library; static. */
PREFIX_API const char* prefix_text_version_string(void);

/* ---- Open ----------------------------------------------------------------------------------- */

/* A tokenizer with the chat templates of its model. */
typedef struct prefix_tokenizer prefix_tokenizer;

/* [any thread] Opens one of
 *   a .gguf file: only its metadata is read. tokenizer.ggml.model must be "gpt2" (byte-level BPE)
 *     and tokenizer.ggml.pre a known name, since a guess would give plausible but wrong ids;
 *   a Hugging Face directory: tokenizer.json, and where they exist tokenizer_config.json,
 *     special_tokens_map.json, generation_config.json or config.json (tokens that end a
 *     generation), chat_template.jinja and additional_chat_templates/;
 *   a file called tokenizer.json: as its directory; any other name: that file alone.
 * *out gets one reference. NOT_FOUND, IO, FORMAT (corrupt, or it asks for too much),
 * UNSUPPORTED_MODEL (a kind of tokenizer that this library does not have), OUT_OF_MEMORY. */
PREFIX_API prefix_status prefix_tokenizer_open(const char* path, size_t path_len,
                                               prefix_tokenizer** out, prefix_error* err);
/* [any thread] From the contents of tokenizer.json and of tokenizer_config.json; the latter may be
 * NULL with length 0. Both are copied. FORMAT, UNSUPPORTED_MODEL, OUT_OF_MEMORY. */
PREFIX_API prefix_status prefix_tokenizer_from_json(const char* tokenizer_json,
                                                    size_t tokenizer_json_len,
                                                    const char* config_json, size_t config_json_len,
                                                    prefix_tokenizer** out, prefix_error* err);
/* [any thread] */
PREFIX_API prefix_status prefix_tokenizer_retain(prefix_tokenizer* tokenizer, prefix_error* err);
/* [any thread] Detokenisers keep their tokenizer alive. */
PREFIX_API void prefix_tokenizer_release(prefix_tokenizer* tokenizer);

/* ---- Tokens --------------------------------------------------------------------------------- */

/* The rest of this header: [any thread] unless said otherwise. MISUSE for a released handle. */

/* {"source": "gguf"|"directory"|"json", "vocab_size": n, "special_tokens": {role: {"id", "text"}},
 *  "end_tokens": [...], "chat_templates": [names]}. */
PREFIX_API prefix_status prefix_tokenizer_info_json(const prefix_tokenizer* tokenizer, char* buf,
                                                    size_t cap, size_t* needed, prefix_error* err);
/* Token ids are in [0, *size). Models often pad their embedding table beyond it. */
PREFIX_API prefix_status prefix_tokenizer_vocab_size(const prefix_tokenizer* tokenizer,
                                                     int64_t* size, prefix_error* err);
/* The token of a role: "bos", "eos", "pad", "unk", "sep", "cls", "mask", "eot", "eom", "fim_prefix"
 * and whatever else the model names (<role>_token in tokenizer_config.json). NOT_FOUND when it has
 * none: a model need not have a bos. */
PREFIX_API prefix_status prefix_tokenizer_special_token(const prefix_tokenizer* tokenizer,
                                                        const char* role, size_t role_len,
                                                        prefix_token* token, prefix_error* err);
/* All tokens after which a generation is over, ascending: eos, eot, eom, those of the model's
 * generation settings, and special tokens of well-known names such as <|im_end|>. Meant for the
 * request option stop_tokens. */
PREFIX_API prefix_status prefix_tokenizer_end_tokens(const prefix_tokenizer* tokenizer,
                                                     prefix_token* out, size_t capacity,
                                                     size_t* needed, prefix_error* err);
/* The bytes that a token stands for inside a text; they may be part of a character. Empty for an id
 * that the vocabulary leaves out. OUT_OF_RANGE beyond vocab_size. */
PREFIX_API prefix_status prefix_tokenizer_token_bytes(const prefix_tokenizer* tokenizer,
                                                      prefix_token token, char* buf, size_t cap,
                                                      size_t* needed, prefix_error* err);
/* The id of a token by its name in the vocabulary, e.g. "<|im_end|>". To find the id of a word
 * encode it: vocabularies spell spaces and bytes in their own way. NOT_FOUND. */
PREFIX_API prefix_status prefix_tokenizer_token_id(const prefix_tokenizer* tokenizer,
                                                   const char* text, size_t text_len,
                                                   prefix_token* token, prefix_error* err);

/* ---- Encode and decode ---------------------------------------------------------------------- */

/* Flags of the encode functions. */
enum {
  PREFIX_ENCODE_SPECIAL = 1, /* add what the model wants around a text, e.g. bos in front */
  /* special tokens written in the text ("<|im_end|>") are plain characters; use it for text from
   * outside that must not steer the model */
  PREFIX_ENCODE_LITERAL = 2
};
/* Flags of the decode functions. */
enum {
  PREFIX_DECODE_SKIP_SPECIAL = 1 /* leave special tokens out */
};

/* Tokens of a text of at most 16 MiB. A text has at most as many tokens as bytes (plus those that
 * PREFIX_ENCODE_SPECIAL adds), so one call with that capacity is enough; asking for the size first
 * encodes twice. An empty text has no tokens. INVALID_UTF8, OUT_OF_RANGE, OUT_OF_MEMORY, FORMAT
 * (parts of the tokenizer do not fit together, which only this text shows). */
PREFIX_API prefix_status prefix_tokenizer_encode(const prefix_tokenizer* tokenizer,
                                                 const char* text, size_t text_len, int32_t flags,
                                                 prefix_token* out, size_t capacity, size_t* needed,
                                                 prefix_error* err);
/* The same with the bytes of the text that each token comes from: token i from offsets[2 * i] up to
 * offsets[2 * i + 1]. capacity_offsets counts numbers: twice the capacity of out. Tokens that are
 * parts of one character have all of it; added tokens have 0, 0. Offsets refer to the text as
 * given, also where the tokenizer normalises it first. */
PREFIX_API prefix_status prefix_tokenizer_encode_offsets(const prefix_tokenizer* tokenizer,
                                                         const char* text, size_t text_len,
                                                         int32_t flags, prefix_token* out,
                                                         size_t capacity, size_t* needed,
                                                         int64_t* offsets, size_t capacity_offsets,
                                                         prefix_error* err);
/* Many texts at once, in one buffer: text i is bytes offsets[i] up to offsets[i + 1] of text, with
 * n_offsets = number of texts + 1, the first 0 and the last text_len. Each text is encoded on its
 * own. Its tokens are out[token_offsets[i]] up to out[token_offsets[i + 1]]; token_offsets takes
 * n_offsets numbers. The whole call fails if one text is bad; the message says which. At most 16 Mi
 * tokens. */
PREFIX_API prefix_status prefix_tokenizer_encode_batch(
    const prefix_tokenizer* tokenizer, const char* text, size_t text_len, const int64_t* offsets,
    size_t n_offsets, int32_t flags, prefix_token* out, size_t capacity, size_t* needed,
    int64_t* token_offsets, size_t capacity_offsets, prefix_error* err);
/* The text of tokens; bytes that are no characters become U+FFFD. OUT_OF_RANGE for a token outside
 * the vocabulary, and for tokens of more than 256 MiB together. OUT_OF_MEMORY. */
PREFIX_API prefix_status prefix_tokenizer_decode(const prefix_tokenizer* tokenizer,
                                                 const prefix_token* tokens, size_t n_tokens,
                                                 int32_t flags, char* buf, size_t cap,
                                                 size_t* needed, prefix_error* err);

/* ---- Streaming ------------------------------------------------------------------------------ */

/* Text of tokens that arrive one by one, never cutting a character. The pieces of a stream, with
 * the one of flush, add up to what prefix_tokenizer_decode gives for all its tokens. */
typedef struct prefix_detok prefix_detok;

/* flags: PREFIX_DECODE_*. */
PREFIX_API prefix_status prefix_detok_create(const prefix_tokenizer* tokenizer, int32_t flags,
                                             prefix_detok** out, prefix_error* err);
PREFIX_API prefix_status prefix_detok_retain(prefix_detok* detok, prefix_error* err);
PREFIX_API void prefix_detok_release(prefix_detok* detok);
/* [one thread per handle; MISUSE otherwise] Takes the tokens and writes the text that has become
 * complete, often nothing. A call that asks for the size or fails (BUFFER_TOO_SMALL, OUT_OF_RANGE)
 * takes none of the tokens: repeat it. */
PREFIX_API prefix_status prefix_detok_push(prefix_detok* detok, const prefix_token* tokens,
                                           size_t n_tokens, char* buf, size_t cap, size_t* needed,
                                           prefix_error* err);
/* [one thread per handle] The end of the stream: the rest of the text, with U+FFFD for an
 * unfinished character. The handle may then be used for the next stream. */
PREFIX_API prefix_status prefix_detok_flush(prefix_detok* detok, char* buf, size_t cap,
                                            size_t* needed, prefix_error* err);

/* ---- Chat ----------------------------------------------------------------------------------- */

/* The prompt of a conversation, as transformers' apply_chat_template renders it.
 *
 * messages: a JSON array of objects with "role" and what the template reads: "content",
 *   "tool_calls", "reasoning_content", ...
 * options: a JSON object, or NULL with length 0 for the defaults:
 *   "add_generation_prompt": true     begin the assistant's turn; the default
 *   "continue_final_message": false   leave the last message open, to be continued
 *   "tools": [...]                    tool definitions as JSON schemas
 *   "documents": [...]
 *   "variables": {...}                further variables of the template, e.g. "enable_thinking"
 *   "template": "name"                default: "tool_use" when there are tools and such a template,
 *                                     else "default"
 *   "now": "2026-01-31T23:59:59"      the time, for templates that print the date; default: now
 *
 * INVALID_ARGUMENT: not such JSON, or the template refuses the messages (the message holds its own
 * words). UNKNOWN_OPTION names the nearest option. NOT_FOUND: no (such) template.
 * UNSUPPORTED_MODEL: a template in a dialect that this library does not know. OUT_OF_RANGE: it
 * wants too much time or memory. */
PREFIX_API prefix_status prefix_tokenizer_chat_text(const prefix_tokenizer* tokenizer,
                                                    const char* messages, size_t messages_len,
                                                    const char* options, size_t options_len,
                                                    char* buf, size_t cap, size_t* needed,
                                                    prefix_error* err);
/* The tokens of that text. segments (capacity_segments entries; there are as many as messages, plus
 * one) receives where the turns end: segments[i] is how many of the first tokens belong to messages
 * 0..i and stay the same when the conversation goes on after message i; the last entry is the
 * number of all tokens. Finding them renders the conversation once per message; NULL with
 * capacity_segments 0 skips that. */
PREFIX_API prefix_status prefix_tokenizer_chat_tokens(const prefix_tokenizer* tokenizer,
                                                      const char* messages, size_t messages_len,
                                                      const char* options, size_t options_len,
                                                      prefix_token* out, size_t capacity,
                                                      size_t* needed, int64_t* segments,
                                                      size_t capacity_segments, prefix_error* err);

/* ---- Recipes -------------------------------------------------------------------------------- */

/* How a task becomes prompts is data: a JSON file that names the pieces of the prompt, what is cut
 * when it is too long, and how the score is read (docs/recipes.md). The shipped ones are built in
 * and are installed under share/prefix/recipes to start from:
 *   rerank    query-likelihood (any causal model), qwen3-reranker
 *   embed     last-token (any model), qwen3-embedding
 *   answer    question-answering (chat models), extractive-qa
 *   classify  choices (any causal model)
 * The first of each line is the default of its task. */

/* [any thread] Names are static; NULL when index is out of range. */
PREFIX_API size_t prefix_recipe_count(void);
PREFIX_API const char* prefix_recipe_name(size_t index);
/* [any thread] The file of a shipped recipe. NOT_FOUND. */
PREFIX_API prefix_status prefix_recipe_json(const char* name, size_t name_len, char* buf,
                                            size_t cap, size_t* needed, prefix_error* err);

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Text in, scores, vectors or answers out. A task encodes its texts, runs them on an engine in
 * chunks of bounded size and collects the results; what its prompts share is computed once. It uses
 * the libprefix that the program has loaded (the engine comes from there) and works in the thread
 * that calls prefix_task_run.
 *
 *   prefix_task* task = NULL;
 *   float scores[2];
 *   const char* docs = "Paris is the capital of France.Bread is baked from flour.";
 *   const int64_t ends[] = {0, 31, 57}, query[] = {0, 25};
 *   prefix_rerank(engine, tokenizer, "Which city rules France? ", 25, query, 2, docs, 57, ends, 3,
 *                 NULL, 0, &task, &err);
 *   prefix_task_run(task, -1, &err);
 *   prefix_task_values(task, scores, 2, NULL, &err);
 *   prefix_task_release(task);
 *
 * Lists of texts come in one buffer, as in prefix_tokenizer_encode_batch: text i is bytes
 * offsets[i] up to offsets[i + 1], n_offsets = number of texts + 1. An empty list is a task without
 * items. Nothing runs before prefix_task_run; the texts are copied. A text that is bad fails alone.
 *
 * options: a JSON object, or NULL with length 0 for the defaults:
 *   "recipe": "name"           a shipped one, or a file's path (with a "/" or ending in ".json")
 *   "instruction": "..."       in place of the recipe's own
 *   "truncate": "right"        cut the end ("right") or the front ("left") of what the recipe lets
 *                              be cut when a prompt is too long, or let the item fail ("off")
 *   "max_prompt_tokens": n     longest prompt; 0 = the recipe's limit or the model's, if smaller
 *   "raw": false               rerank: a difference of logits, a sum of log-probs, not the score;
 *                              classify: log-probs instead of probabilities
 *   "top_n": 0                 rerank, classify: length of prefix_task_order; 0 = all
 *   "prompt": "document"       embed: which of the recipe's prompts ("query", "document", ...)
 *   "dimensions": 0            embed: keep the first n values; 0 = all
 *   "normalize": true          embed: scale to length 1, after the cut
 *   "chunk_tokens": 65536      most distinct tokens that are in work at once
 *   "request": {...}           options of the engine's requests (prefix_option_info), for instance
 *                              {"namespace": "tenant-7", "max_tokens": 64}
 *
 * The functions that make a task: INVALID_ARGUMENT, UNKNOWN_OPTION, OUT_OF_RANGE (a number beyond
 * its limits; more than 16 Mi items), NOT_FOUND (the recipe), FORMAT (a recipe that is wrong; the
 * message names the field), UNSUPPORTED_MODEL (the recipe needs a token or a chat template that the
 * model lacks), OUT_OF_MEMORY, MISUSE, INVALID_UTF8 (context and labels; a query, a document or a
 * text that is not UTF-8 fails alone). */
typedef struct prefix_task prefix_task;

/* Every document for every query; a higher score is better. Items and values are row-major: item
 * q * documents + d. With recipe query-likelihood the score is the mean log-prob of the query after
 * the document, and each document is computed once for all queries; with qwen3-reranker it is
 * the probability of "yes". */
PREFIX_API prefix_status prefix_rerank(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                       const char* queries, size_t queries_len,
                                       const int64_t* query_offsets, size_t n_query_offsets,
                                       const char* documents, size_t documents_len,
                                       const int64_t* document_offsets, size_t n_document_offsets,
                                       const char* options, size_t options_len, prefix_task** out,
                                       prefix_error* err);
/* One vector for each text. */
PREFIX_API prefix_status prefix_embed(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                      const char* text, size_t text_len, const int64_t* offsets,
                                      size_t n_offsets, const char* options, size_t options_len,
                                      prefix_task** out, prefix_error* err);
/* Answers to many questions about one context, which is computed once; they are decoded
 * together. */
PREFIX_API prefix_status prefix_answer(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                       const char* context, size_t context_len,
                                       const char* questions, size_t questions_len,
                                       const int64_t* question_offsets, size_t n_question_offsets,
                                       const char* options, size_t options_len, prefix_task** out,
                                       prefix_error* err);
/* The probability of each label for each text; the labels' probabilities of a text add up to 1. */
PREFIX_API prefix_status prefix_classify(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                         const char* text, size_t text_len, const int64_t* offsets,
                                         size_t n_offsets, const char* labels, size_t labels_len,
                                         const int64_t* label_offsets, size_t n_label_offsets,
                                         const char* options, size_t options_len, prefix_task** out,
                                         prefix_error* err);

/* [any thread] */
PREFIX_API prefix_status prefix_task_retain(prefix_task* task, prefix_error* err);
/* [any thread] The last release cancels what runs. */
PREFIX_API void prefix_task_release(prefix_task* task);
/* [one thread per handle; MISUSE otherwise] Works until every item has its result or timeout_ms
 * have passed; then TIMEOUT, and the next call goes on. timeout_ms < 0: no limit; 0: one look,
 * which may still encode and submit a chunk. Errors that concern all items: ENGINE_FAILED, MISUSE
 * (the engine is shut down); those of single items are reported with the item. */
PREFIX_API prefix_status prefix_task_run(prefix_task* task, int64_t timeout_ms, prefix_error* err);
/* [any thread] Items without a result end with CANCELLED; prefix_task_run returns soon after. */
PREFIX_API prefix_status prefix_task_cancel(prefix_task* task, prefix_error* err);
/* [any thread] How many of all items have their result. Either may be NULL. */
PREFIX_API prefix_status prefix_task_progress(const prefix_task* task, int64_t* done,
                                              int64_t* total, prefix_error* err);

/* The rest: [any thread], MISUSE before prefix_task_run has returned OK. */

/* rows x columns values; rerank: queries x documents, one item each. embed: texts x dimensions,
 * classify: texts x labels, answer: questions x 0, one item a row. */
PREFIX_API prefix_status prefix_task_shape(const prefix_task* task, int64_t* rows, int64_t* columns,
                                           prefix_error* err);
/* All values, row after row, in the order of the input; NaN for an item that failed. */
PREFIX_API prefix_status prefix_task_values(const prefix_task* task, float* out, size_t capacity,
                                            size_t* needed, prefix_error* err);
/* The columns of a row from best to worst, equal ones in the order of the input, without failed
 * ones, at most top_n. rerank and classify only; MISUSE otherwise. */
PREFIX_API prefix_status prefix_task_order(const prefix_task* task, int64_t row, int64_t* out,
                                           size_t capacity, size_t* needed, prefix_error* err);
/* The status of every item. */
PREFIX_API prefix_status prefix_task_statuses(const prefix_task* task, int32_t* out,
                                              size_t capacity, size_t* needed, prefix_error* err);
/* Status and counts of one item; user_tag is 1 when its prompt was cut. */
PREFIX_API prefix_status prefix_task_item_info(const prefix_task* task, int64_t item,
                                               prefix_result_info* out, prefix_error* err);
/* The sentence that goes with the status of an item; "" when it is OK. */
PREFIX_API prefix_status prefix_task_item_message(const prefix_task* task, int64_t item, char* buf,
                                                  size_t cap, size_t* needed, prefix_error* err);
/* answer: the text, without surrounding white space; empty for other tasks. Of an item that failed:
 * its status and its sentence. */
PREFIX_API prefix_status prefix_task_item_text(const prefix_task* task, int64_t item, char* buf,
                                               size_t cap, size_t* needed, prefix_error* err);
/* The same of every item: what there is of an answer that was cancelled or ran out of time. */
PREFIX_API prefix_status prefix_task_item_partial_text(const prefix_task* task, int64_t item,
                                                       char* buf, size_t cap, size_t* needed,
                                                       prefix_error* err);
/* What the engine did for the whole task; seconds: from the first prefix_task_run to the end. */
PREFIX_API prefix_status prefix_task_totals(const prefix_task* task, prefix_job_totals* out,
                                            prefix_error* err);

/* ---- All functions -------------------------------------------------------------------------- */

/* X(name) for every function above. */
/* clang-format off */
#define PREFIX_TEXT_FUNCTIONS(X) \
  X(prefix_text_abi_version) \
  X(prefix_text_version_string) \
  X(prefix_tokenizer_open) \
  X(prefix_tokenizer_from_json) \
  X(prefix_tokenizer_retain) \
  X(prefix_tokenizer_release) \
  X(prefix_tokenizer_info_json) \
  X(prefix_tokenizer_vocab_size) \
  X(prefix_tokenizer_special_token) \
  X(prefix_tokenizer_end_tokens) \
  X(prefix_tokenizer_token_bytes) \
  X(prefix_tokenizer_token_id) \
  X(prefix_tokenizer_encode) \
  X(prefix_tokenizer_encode_offsets) \
  X(prefix_tokenizer_encode_batch) \
  X(prefix_tokenizer_decode) \
  X(prefix_detok_create) \
  X(prefix_detok_retain) \
  X(prefix_detok_release) \
  X(prefix_detok_push) \
  X(prefix_detok_flush) \
  X(prefix_tokenizer_chat_text) \
  X(prefix_tokenizer_chat_tokens) \
  X(prefix_recipe_count) \
  X(prefix_recipe_name) \
  X(prefix_recipe_json) \
  X(prefix_rerank) \
  X(prefix_embed) \
  X(prefix_answer) \
  X(prefix_classify) \
  X(prefix_task_retain) \
  X(prefix_task_release) \
  X(prefix_task_run) \
  X(prefix_task_cancel) \
  X(prefix_task_progress) \
  X(prefix_task_shape) \
  X(prefix_task_values) \
  X(prefix_task_order) \
  X(prefix_task_statuses) \
  X(prefix_task_item_info) \
  X(prefix_task_item_message) \
  X(prefix_task_item_text) \
  X(prefix_task_item_partial_text) \
  X(prefix_task_totals)
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif /* PREFIX_TEXT_H */
