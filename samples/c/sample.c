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
  texts->bytes = more(texts->bytes, texts->length + length + 1);
  texts->offsets = more(texts->offsets, (texts->count + 2) * sizeof(*texts->offsets));
  memcpy(texts->bytes + texts->length, text, length);
  texts->offsets[texts->count] = (int64_t)texts->length;
  texts->length += length;
  texts->offsets[++texts->count] = (int64_t)texts->length;
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
  sample_texts texts = {NULL, 0, NULL, 0};
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
  sample_texts texts = {NULL, 0, NULL, 0};
  FILE* file = open_text(path);
  char* whole = NULL;
  size_t length = 0;
  size_t got;
  do {
    whole = more(whole, length + 65536);
    got = fread(whole + length, 1, 65536, file);
    length += got;
  } while (got > 0);
  sample_add(&texts, whole, length);
  free(whole);
  if (file != stdin) fclose(file);
  return texts;
}

const char* sample_text(const sample_texts* texts, size_t index, int* length) {
  *length = (int)(texts->offsets[index + 1] - texts->offsets[index]);
  return texts->bytes + texts->offsets[index];
}

void sample_free(sample_texts* texts) {
  free(texts->bytes);
  free(texts->offsets);
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

void sample_run(prefix_task* task) {
  prefix_error err = PREFIX_ERROR_INIT;
  const int show = isatty(2);
  prefix_status status;
  while ((status = prefix_task_run(task, 200, &err)) == PREFIX_ERR_TIMEOUT) {
    int64_t done = 0, total = 0;
    prefix_task_progress(task, &done, &total, NULL);
    if (show) fprintf(stderr, "\r%lld of %lld", (long long)done, (long long)total);
  }
  if (show) fprintf(stderr, "\r                    \r");
  if (status != PREFIX_OK) sample_fail(&err);
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
