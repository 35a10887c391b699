#include "sample.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char* sample_name = "sample";

static void* more(void* memory, size_t bytes) {
  void* grown = realloc(memory, bytes);
  if (grown == NULL) {
    fprintf(stderr, "%s: no memory for %zu bytes\n", sample_name, bytes);
    exit(1);
  }
  return grown;
}

void sample_fail(const prefix_error* err) {
  fprintf(stderr, "%s: %s (%s)\n", sample_name, err->message, prefix_status_name(err->code));
  exit(1);
}

void sample_usage(const char* message) {
  fprintf(stderr, "%s: %s; try --help\n", sample_name, message);
  exit(2);
}

const char* sample_option(int* argc, char** argv, const char* name, int is_flag) {
  const int taken = is_flag ? 1 : 2;
  for (int i = 1; i < *argc; ++i) {
    if (strcmp(argv[i], name) != 0) continue;
    if (!is_flag && i + 1 == *argc) {
      fprintf(stderr, "%s: %s needs a value\n", sample_name, name);
      exit(2);
    }
    const char* value = argv[i + taken - 1];
    memmove(argv + i, argv + i + taken, (size_t)(*argc - i - taken + 1) * sizeof(*argv));
    *argc -= taken;
    return value;
  }
  return NULL;
}

void sample_no_more_options(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--", 2) != 0) continue;
    fprintf(stderr, "%s: unknown option %s; try --help\n", sample_name, argv[i]);
    exit(2);
  }
}

void sample_add(sample_texts* texts, const char* text, size_t length) {
  char* copy = more(NULL, length + 1);
  memcpy(copy, text, length);
  copy[length] = 0;
  texts->texts = more(texts->texts, (texts->count + 1) * sizeof(*texts->texts));
  texts->lengths = more(texts->lengths, (texts->count + 1) * sizeof(*texts->lengths));
  texts->texts[texts->count] = copy;
  texts->lengths[texts->count++] = length;
}

void sample_free(sample_texts* texts) {
  for (size_t i = 0; i < texts->count; ++i) free((char*)texts->texts[i]);
  free(texts->texts);
  free(texts->lengths);
}

static void reserve(sample_string* string, size_t room) {
  if (room <= string->room) return;
  string->room = 2 * room;
  string->bytes = more(string->bytes, string->room);
}

void sample_append(sample_string* string, const char* text, size_t length) {
  reserve(string, string->length + length + 1);
  memcpy(string->bytes + string->length, text, length);
  string->length += length;
  string->bytes[string->length] = 0;
}

static FILE* open_text(const char* path) {
  if (strcmp(path, "-") == 0) return stdin;
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "%s: cannot read %s\n", sample_name, path);
    exit(2);
  }
  return file;
}

sample_texts sample_lines(const char* path) {
  sample_texts texts = {NULL, NULL, 0};
  FILE* file = open_text(path);
  char* line = NULL;
  size_t room = 0;
  ssize_t length;
  while ((length = getline(&line, &room, file)) >= 0) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) --length;
    if (length > 0) sample_add(&texts, line, (size_t)length);
  }
  free(line);
  if (file != stdin) fclose(file);
  return texts;
}

sample_texts sample_file(const char* path) {
  sample_texts texts = {NULL, NULL, 0};
  FILE* file = open_text(path);
  sample_string whole = {NULL, 0, 0};
  char bytes[65536];
  size_t got;
  while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0) sample_append(&whole, bytes, got);
  sample_add(&texts, whole.bytes ? whole.bytes : "", whole.length);
  free(whole.bytes);
  if (file != stdin) fclose(file);
  return texts;
}

void sample_open(const char* path, prefix_engine** engine, prefix_tokenizer** tokenizer) {
  prefix_error err = PREFIX_ERROR_INIT;
  if (prefix_tokenizer_open(path, PREFIX_NUL, tokenizer, &err) != PREFIX_OK ||
      prefix_engine_open(path, PREFIX_NUL, NULL, engine, &err) != PREFIX_OK)
    sample_fail(&err);
  const int show = isatty(2);
  double done = 0;
  prefix_status status;
  while ((status = prefix_engine_wait(*engine, 200, &done, &err)) == PREFIX_ERR_TIMEOUT)
    if (show) fprintf(stderr, "\rloading %3.0f%%", done * 100);
  if (show) fprintf(stderr, "\r            \r");
  if (status != PREFIX_OK) sample_fail(&err);
}

prefix_options* sample_options(const char* recipe, const char* number_key, const char* number) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_options* options = NULL;
  if (prefix_options_create(&options, &err) != PREFIX_OK) sample_fail(&err);
  if (recipe != NULL &&
      prefix_options_set(options, "recipe", PREFIX_NUL, recipe, PREFIX_NUL, &err) != PREFIX_OK)
    sample_fail(&err);
  if (number != NULL &&
      prefix_options_set(options, number_key, PREFIX_NUL, number, PREFIX_NUL, &err) != PREFIX_OK)
    sample_fail(&err);
  return options;
}

void sample_wait(prefix_task* task) {
  prefix_error err = PREFIX_ERROR_INIT;
  const int show = isatty(2);
  prefix_status status;
  while ((status = prefix_task_wait(task, 200, &err)) == PREFIX_ERR_TIMEOUT) {
    size_t done = 0, all = 0;
    prefix_task_finished_count(task, &done, NULL);
    prefix_task_count(task, &all, NULL);
    if (show) fprintf(stderr, "\r%zu of %zu", done, all);
  }
  if (show) fprintf(stderr, "\r                    \r");
  if (status != PREFIX_OK) sample_fail(&err);
}

int sample_next(prefix_task* task, prefix_event* event, sample_string* text) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_status status;
  reserve(text, 1);
  /* A text for which there is no room stays where it is. */
  while ((status = prefix_task_next_event(task, -1, event, text->bytes, text->room, &text->length,
                                          &err)) == PREFIX_ERR_BUFFER_TOO_SMALL)
    reserve(text, text->length + 1);
  if (status != PREFIX_OK && status != PREFIX_ERR_NO_EVENT) sample_fail(&err);
  return status == PREFIX_OK;
}

void sample_json_string(FILE* out, const char* text, size_t length) {
  fputc('"', out);
  for (size_t i = 0; i < length; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

void sample_table(const prefix_job_totals* t) {
  const double seconds = (double)t->total_us * 1e-6;
  const double speed = seconds > 0 ? (double)t->tokens_given / seconds : 0;
  printf("\n%10s%10s%10s%10s%10s%10s%12s\n", "given", "cached", "shared", "computed", "generated",
         "seconds", "tokens/s");
  printf("%10lld%10lld%10lld%10lld%10lld%10.2f%12.0f\n", (long long)t->tokens_given,
         (long long)t->tokens_cached, (long long)t->tokens_shared, (long long)t->tokens_computed,
         (long long)t->tokens_generated, seconds, speed);
}

void sample_json_totals(FILE* out, const prefix_job_totals* t) {
  fprintf(out,
          "{\"given\":%lld,\"cached\":%lld,\"shared\":%lld,\"computed\":%lld,\"generated\":%lld,"
          "\"seconds\":%.6f}",
          (long long)t->tokens_given, (long long)t->tokens_cached, (long long)t->tokens_shared,
          (long long)t->tokens_computed, (long long)t->tokens_generated,
          (double)t->total_us * 1e-6);
}
