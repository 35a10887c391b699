/* prefix_text.h - tokenizers, chat templates and ready-made tasks for the models that prefix.h
 * runs.
 *
 * prefix.h takes token ids. This library, libprefix_text.so, makes them from text and makes text
 * from them: exactly as the Hugging Face packages do, from a Hugging Face directory, a
 * tokenizer.json or the metadata of a GGUF file. It is optional and stands alone: it needs nothing
 * but libc and libgcc_s.
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
 *  3. A tokenizer never changes once it is open. To encode on many cores, call from many threads.
 *     The library has a thread of its own only while tasks run.
 *  4. Encoding "AB" is not encoding "A" and then "B". Where a shared prefix must stay the same in
 *     tokens, encode its parts in separate calls, those behind the first with
 *     PREFIX_ENCODE_CONTINUES, and join the ids, or take the boundaries that
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
 *   a .gguf file: only its metadata is read. tokenizer.ggml.model must be "llama" (SentencePiece
 *     BPE), "t5" (Unigram), "bert" (WordPiece), or "gpt2" (byte-level BPE) with a known name in
 *     tokenizer.ggml.pre, since a guess would give plausible but wrong ids;
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
 * request option stop_tokens, which refuses tokens beyond the model's vocabulary (info of the
 * engine): leave those out, which were added behind it and which the model never writes. */
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
  PREFIX_ENCODE_LITERAL = 2,
  /* the text goes on another one, as what is scored after a prompt does: a tokenizer that puts a
   * space in front of a text puts none here */
  PREFIX_ENCODE_CONTINUES = 4
};
/* Flags of the decode functions. */
enum {
  PREFIX_DECODE_SKIP_SPECIAL = 1 /* leave special tokens out */
};

/* Tokens of a text of at most 16 MiB. A text seldom has more tokens than bytes (and those that
 * PREFIX_ENCODE_SPECIAL adds), so one call with that capacity is mostly enough; asking for the size
 * first encodes twice. It may have more, where the tokenizer puts a space in front or writes one
 * character as several (U+FDFA): BUFFER_TOO_SMALL then, and `needed`. An empty text has no tokens.
 * INVALID_UTF8, OUT_OF_RANGE, OUT_OF_MEMORY, FORMAT (parts of the tokenizer do not fit together,
 * which only this text shows). */
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
 * one) receives where the turns end: segments[i] is how many of the first tokens this conversation
 * has in common with the one that ends after message i; the last entry is the number of all tokens.
 * A longer conversation has them in common, too, unless the template writes a turn otherwise when
 * others follow: Qwen3's leaves the thoughts of earlier turns out. Finding them renders the
 * conversation once per message; NULL with capacity_segments 0 skips that. */
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
 *   rerank    query-likelihood (any causal model), and those of models made for it
 *   embed     last-token (any model), and those of models made for it
 *   answer    question-answering (chat models), extractive-qa
 *   classify  choices (any causal model)
 *   generate  completion (any causal model), chat-turn (chat models)
 *   chat      conversation (chat models)
 * Unless option recipe names one, the model brings its own: a prefix_recipe.json among its files,
 * or the shipped recipe that its files call for (prefix_engine_info_json, "declared"). A model that
 * is not known for a task gets the first of the line, with a WARNING in the log of prefix.h once.
 * prefix_task_info_json tells which, and why. */

/* [any thread] Names are static; NULL when index is out of range. */
PREFIX_API size_t prefix_recipe_count(void);
PREFIX_API const char* prefix_recipe_name(size_t index);
/* [any thread] The file of a shipped recipe. NOT_FOUND. */
PREFIX_API prefix_status prefix_recipe_json(const char* name, size_t name_len, char* buf,
                                            size_t cap, size_t* needed, prefix_error* err);

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Text in, scores, vectors or answers out. A task is filled with items, submitted once, and waited
 * for; what its prompts share is computed once.
 *
 *   const char* query = "Which city rules France?";
 *   const char* documents[] = {"Paris is the capital of France.", "Bread is baked from flour."};
 *   int64_t order[2];
 *   float scores[2];
 *   prefix_task* task = NULL;
 *   prefix_task_create(engine, tokenizer, "rerank", PREFIX_NUL, NULL, &task, &err);
 *   prefix_task_add_product(task, &query, NULL, 1, documents, NULL, 2, 0, NULL, &err);
 *   prefix_task_submit(task, &err);
 *   prefix_task_wait(task, -1, &err);
 *   prefix_task_ranking(task, 0, 2, order, 2, NULL, scores, 2, &err);
 *   prefix_task_release(task);
 *
 * kind        an item is               its values, or text
 * "rerank"    a query, a document      one score; higher is better. Of a reranker as its authors
 *                                      define it, of others the mean log-probability of the query
 *                                      after the document
 * "embed"     a text                   a vector
 * "classify"  a text                   a probability for each label; together they are 1, unless the
 *                                      model's classification head was trained for something else
 * "answer"    a context, a question    a text
 * "generate"  a prompt                 a text
 * "chat"      messages, as JSON for    a text
 *             prefix_tokenizer_chat_text, or an object of "messages" and its options
 *
 *   create ── set_labels, add, add_product ──> submit ──> wait, notify ──> values, texts, ranking
 *                                                 │           items that are finished can be read
 *                                                 └── cancel  at any time, and events as they come
 *
 * The first chunk of a task (half of option chunk_tokens) is encoded by the thread that submits it,
 * what follows by one thread of the library for all tasks, which ends with the last of them. Tasks
 * use the libprefix that the program has loaded: the engine comes from there.
 *
 * Texts come as an array of pointers with an array of lengths in bytes; lengths may be NULL, and a
 * length PREFIX_NUL, where texts end with a zero. They are copied. An item with a bad text (not
 * UTF-8, too long) fails alone. A task has at most 16 Mi items.
 *
 * Every function: [any thread]. MISUSE for what belongs before prefix_task_submit and comes after
 * it, and the other way round. */
typedef struct prefix_task prefix_task;

/* options (may be NULL): those of tasks and of the requests that the task makes, for instance
 * recipe and namespace, or max_tokens for a task that writes texts; docs/options.md lists them. A
 * task that writes texts keeps them to a JSON schema, a regular expression or a grammar with
 * json_schema, regex or grammar: what is wrong with these is an INVALID_ARGUMENT with its place,
 * OUT_OF_RANGE when they would take unreasonable time or memory (docs/structured-output.md). With
 * logprobs or top_logprobs it keeps the tokens of its texts for prefix_task_item_logprobs.
 * deadline_ms counts from prefix_task_submit, for the whole task. One that has no effect on this
 * kind is an INVALID_ARGUMENT, as is a tokenizer that does not fit the model. NOT_FOUND, FORMAT:
 * the recipe; UNSUPPORTED_MODEL: it needs a token, a chat template or a head that the model lacks;
 * the message names both. */
PREFIX_API prefix_status prefix_task_create(prefix_engine* engine,
                                            const prefix_tokenizer* tokenizer, const char* kind,
                                            size_t kind_len, const prefix_options* options,
                                            prefix_task** out, prefix_error* err);
PREFIX_API prefix_status prefix_task_retain(prefix_task* task, prefix_error* err);
/* The last release cancels what is not finished. */
PREFIX_API void prefix_task_release(prefix_task* task);

/* classify: the labels, in place of earlier ones. Where a classification head is read, the labels
 * are the head's own unless some of them are chosen here, in the order of the values. INVALID_UTF8,
 * INVALID_ARGUMENT for none, UNSUPPORTED_MODEL for one that the head does not have. */
PREFIX_API prefix_status prefix_task_set_labels(prefix_task* task, const char* const* texts,
                                                const size_t* lengths, size_t n_texts,
                                                prefix_error* err);
/* Adds items: n_texts is a multiple of the texts of an item, which follow each other (query,
 * document, query, document, ...). user_tag comes back with each of them. *index (may be NULL): the
 * number of the first. OUT_OF_RANGE for too many items, OUT_OF_MEMORY.
 * Option samples makes S items of each that is given: sample k of the one given at place i, counted
 * from 0, is item index + i * S + k, and *index counts the samples of all that came before. They
 * are items in every respect: they are counted, have a result or failure and events of their own,
 * and the seed that prefix_task_item_info tells. With option seed it is seed + k, and 0 follows the
 * largest seed there is. */
PREFIX_API prefix_status prefix_task_add(prefix_task* task, const char* const* texts,
                                         const size_t* lengths, size_t n_texts, int64_t user_tag,
                                         size_t* index, prefix_error* err);
/* Adds an item for every second text with every first one: item index + i * n_seconds + j is
 * firsts[i] with seconds[j], as all documents for each query; of S samples the first is
 * index + (i * n_seconds + j) * S. MISUSE for a kind whose items have one text. */
PREFIX_API prefix_status prefix_task_add_product(prefix_task* task, const char* const* firsts,
                                                 const size_t* first_lengths, size_t n_firsts,
                                                 const char* const* seconds,
                                                 const size_t* second_lengths, size_t n_seconds,
                                                 int64_t user_tag, size_t* index,
                                                 prefix_error* err);
/* Starts the task. MISUSE (the engine is shut down), ENGINE_FAILED, INVALID_ARGUMENT (classify
 * without labels), OUT_OF_MEMORY: then it is as before. */
PREFIX_API prefix_status prefix_task_submit(prefix_task* task, prefix_error* err);
/* As prefix_job_wait: TIMEOUT while items are unfinished. Failures are told by the items. */
PREFIX_API prefix_status prefix_task_wait(prefix_task* task, int64_t timeout_ms, prefix_error* err);
/* As prefix_job_notify; also before prefix_task_submit. A task that is released without it brings
 * the tag then. */
PREFIX_API prefix_status prefix_task_notify(prefix_task* task, prefix_queue* queue, int64_t tag,
                                            prefix_error* err);
/* Unfinished items end with CANCELLED; texts that were begun keep what there is. Idempotent. */
PREFIX_API prefix_status prefix_task_cancel(prefix_task* task, prefix_error* err);
/* {"kind": text, "recipe": name, "method": text, "reason": why this recipe, in a sentence,
 *  "model": name}; of classify also "labels": [as set, or those of the head]. */
PREFIX_API prefix_status prefix_task_info_json(const prefix_task* task, char* buf, size_t cap,
                                               size_t* needed, prefix_error* err);
PREFIX_API prefix_status prefix_task_count(const prefix_task* task, size_t* count,
                                           prefix_error* err);
PREFIX_API prefix_status prefix_task_finished_count(const prefix_task* task, size_t* count,
                                                    prefix_error* err);
/* The tokens of an item as the engine is given them, for instance to look for them in its cache or
 * to pin them there: its prompt, and what is scored after it (not the labels of classify), whose
 * last token takes no room in the cache. Before and after prefix_task_submit; they are made anew.
 * The error of an item whose prompt cannot be made; OUT_OF_RANGE. */
PREFIX_API prefix_status prefix_task_item_tokens(const prefix_task* task, size_t item,
                                                 prefix_token* out, size_t capacity, size_t* needed,
                                                 prefix_error* err);
/* The next event, waiting as prefix_task_wait does; the oldest goes with the call that gets it.
 * event->request is the item. FINISHED or ERROR: the item can be read. TEXT, with option stream:
 * buf receives more of its text; the pieces add up to prefix_task_item_text. A buf that is too
 * small leaves the event where it is, as does asking for its size. TIMEOUT: none yet. NO_EVENT:
 * the task is done and there will be no more. */
PREFIX_API prefix_status prefix_task_next_event(prefix_task* task, int64_t timeout_ms,
                                                prefix_event* event, char* buf, size_t cap,
                                                size_t* needed, prefix_error* err);
/* As prefix_job_notify_events: a tag when there is an event to read. Before prefix_task_submit as
 * prefix_task_notify. */
PREFIX_API prefix_status prefix_task_notify_events(prefix_task* task, prefix_queue* queue,
                                                   int64_t tag, prefix_error* err);

/* The rest: after prefix_task_submit. MISUSE while an item is unfinished, OUT_OF_RANGE for one that
 * does not exist. Of an item that failed, values and text are failures with its status and its
 * sentence; prefix_task_item_info tells of every item that is finished. */

/* Values that an item has: rerank 1, embed the dimensions, classify the labels, else 0. */
PREFIX_API prefix_status prefix_task_width(const prefix_task* task, size_t* width,
                                           prefix_error* err);
/* Status and counts of an item; times since prefix_task_submit. A text that a stop text ends has
 * finish STOP; some tokens may have been generated behind it. */
PREFIX_API prefix_status prefix_task_item_info(const prefix_task* task, size_t item,
                                               prefix_result_info* out, prefix_error* err);
/* The sentence that goes with the status of an item; "" when it is OK. */
PREFIX_API prefix_status prefix_task_item_message(const prefix_task* task, size_t item, char* buf,
                                                  size_t cap, size_t* needed, prefix_error* err);
PREFIX_API prefix_status prefix_task_item_values(const prefix_task* task, size_t item, float* out,
                                                 size_t capacity, size_t* needed,
                                                 prefix_error* err);
/* Without white space around it, unless the recipe keeps it. */
PREFIX_API prefix_status prefix_task_item_text(const prefix_task* task, size_t item, char* buf,
                                               size_t cap, size_t* needed, prefix_error* err);
/* The same, also what there is of a text that was cancelled or ran out of time. */
PREFIX_API prefix_status prefix_task_item_partial_text(const prefix_task* task, size_t item,
                                                       char* buf, size_t cap, size_t* needed,
                                                       prefix_error* err);
/* The tokens that the text of an item is made of, from number `first` on, in a task with option
 * logprobs or top_logprobs; without these none. Each with its log-prob, as the model has it before
 * options change its logits, and with the byte of prefix_task_item_text where it begins: of tokens
 * that are parts of one character all begin there; a special token has no text. They are
 *   those of white space that the text leaves out around it, too;
 *   not those of the stop text, from the first that begins in it on;
 *   not the token that ended the text, unless it is a part of the text.
 * What a token is written with, prefix_tokenizer_token_bytes tells. With option stream also while
 * the text is written: when a TEXT event can be read, all tokens that begin in its text are there;
 * the others come with the end of the item. Tokens never change once they are there. They are
 * there however the item ends, as prefix_task_item_partial_text. Of one that was cancelled or ran
 * out of time the last ones are missing if tokens were lost on their way to the task: a million of
 * them waited there, or there was no memory for one. *needed: how many there are from `first` on.
 * Each array takes that many and may be NULL with capacity 0. MISUSE for an item that is
 * unfinished, without option stream; OUT_OF_RANGE for a `first` beyond their number. */
PREFIX_API prefix_status prefix_task_item_logprobs(const prefix_task* task, size_t item,
                                                   size_t first, prefix_token* tokens,
                                                   size_t capacity, size_t* needed, float* logprobs,
                                                   size_t capacity_logprobs, int64_t* offsets,
                                                   size_t capacity_offsets, prefix_error* err);
/* Of token number `place` of them, with option top_logprobs = k: the k likeliest tokens in its
 * place with their log-probs, as prefix_job_partial_top has them; without that option none. *needed:
 * k. Errors as above. */
PREFIX_API prefix_status prefix_task_item_top(const prefix_task* task, size_t item, size_t place,
                                              prefix_token* tokens, size_t capacity, size_t* needed,
                                              float* logprobs, size_t capacity_logprobs,
                                              prefix_error* err);
/* The values of all items, one item after the other; NaN for one that failed or is unfinished. */
PREFIX_API prefix_status prefix_task_all_values(const prefix_task* task, float* out,
                                                size_t capacity, size_t* needed, prefix_error* err);
/* The status of every item; NO_EVENT for one that is unfinished. */
PREFIX_API prefix_status prefix_task_statuses(const prefix_task* task, int32_t* out,
                                              size_t capacity, size_t* needed, prefix_error* err);
/* OK when no item has failed so far; otherwise the status and the sentence of the first one that
 * did, and *item (may be NULL) its number. A call that fails itself leaves *item as it is. */
PREFIX_API prefix_status prefix_task_first_failure(const prefix_task* task, size_t* item,
                                                   prefix_error* err);
/* rerank and classify: of the values [first, first + count) of prefix_task_all_values, from best
 * to worst, the place (counted from first) and the value itself; equal ones in the order of the
 * input, NaN left out, at most top_n. For rerank that are items, the documents of a query for
 * instance; for classify with L labels, the labels of item i are the values [i * L, i * L + L).
 * *needed: places. scores may be NULL with capacity 0. */
PREFIX_API prefix_status prefix_task_ranking(const prefix_task* task, size_t first, size_t count,
                                             int64_t* order, size_t capacity, size_t* needed,
                                             float* scores, size_t capacity_scores,
                                             prefix_error* err);
/* What the engine did for the whole task so far; complete when it is done. */
PREFIX_API prefix_status prefix_task_get_totals(const prefix_task* task, prefix_job_totals* out,
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
  X(prefix_task_create) \
  X(prefix_task_retain) \
  X(prefix_task_release) \
  X(prefix_task_set_labels) \
  X(prefix_task_add) \
  X(prefix_task_add_product) \
  X(prefix_task_submit) \
  X(prefix_task_wait) \
  X(prefix_task_notify) \
  X(prefix_task_cancel) \
  X(prefix_task_info_json) \
  X(prefix_task_count) \
  X(prefix_task_finished_count) \
  X(prefix_task_item_tokens) \
  X(prefix_task_next_event) \
  X(prefix_task_notify_events) \
  X(prefix_task_width) \
  X(prefix_task_item_info) \
  X(prefix_task_item_message) \
  X(prefix_task_item_values) \
  X(prefix_task_item_text) \
  X(prefix_task_item_partial_text) \
  X(prefix_task_item_logprobs) \
  X(prefix_task_item_top) \
  X(prefix_task_all_values) \
  X(prefix_task_statuses) \
  X(prefix_task_first_failure) \
  X(prefix_task_ranking) \
  X(prefix_task_get_totals)
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif /* PREFIX_TEXT_H */
