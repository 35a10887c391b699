/* bindings/golden_texts.txt in C: texts in, bits of scores out. golden_texts FILE MODELS
 *
 * Prints the file with what the library computes; the exit code is 0 when that is the file.
 * bindings/make_golden writes the file with the same program and says what its lines mean. */
#include <prefix_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096, ROOM = 256 };

static prefix_error err = PREFIX_ERROR_INIT;

static void check(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "golden_texts: %s %s\n", what, err.message);
  exit(2);
}

/* What one task of the file is made of. */
static prefix_options* options;
static char kind[LINE], words[2][ROOM][LINE];
static const char *texts[ROOM], *labels[ROOM];
static size_t n_texts, n_labels;

static prefix_engine* engine;
static prefix_tokenizer* tokenizer;
static char written[1 << 16]; /* the results of the task as lines */
static size_t length;

static void set_option(const char* setting) {
  const char* equals = strchr(setting, '=');
  check(equals != NULL, setting);
  check(prefix_options_set(options, setting, (size_t)(equals - setting), equals + 1, PREFIX_NUL,
                           &err) == PREFIX_OK,
        "option");
}

static void put(const char* text) {
  const size_t more = strlen(text);
  check(length + more < sizeof written, "the results are too long");
  memcpy(written + length, text, more + 1);
  length += more;
}

static void put_float(float value) {
  unsigned int bits;
  char text[16];
  memcpy(&bits, &value, sizeof bits);
  snprintf(text, sizeof text, " %08x", bits);
  put(text);
}

static void put_int(long number) {
  char text[32];
  snprintf(text, sizeof text, " %ld", number);
  put(text);
}

/* Runs the task and writes its results as lines. */
static void run_task(void) {
  static prefix_token tokens[LINE];
  static float values[LINE];
  static int32_t statuses[ROOM];
  static char text[LINE];
  prefix_task* task = NULL;
  size_t i, n = 0;
  length = 0;
  written[0] = 0;
  if (kind[0] == 0) return;
  check(prefix_task_create(engine, tokenizer, kind, PREFIX_NUL, options, &task, &err) == PREFIX_OK,
        "create");
  if (n_labels > 0) {
    check(prefix_task_set_labels(task, labels, NULL, n_labels, &err) == PREFIX_OK, "labels");
  }
  check(prefix_task_add(task, texts, NULL, n_texts, 0, NULL, &err) == PREFIX_OK, "add");
  check(prefix_task_item_tokens(task, 0, tokens, LINE, &n, &err) == PREFIX_OK, "tokens");
  put("tokens");
  for (i = 0; i < n; ++i) put_int(tokens[i]);
  check(prefix_task_submit(task, &err) == PREFIX_OK, "submit");
  check(prefix_task_wait(task, -1, &err) == PREFIX_OK, "wait");
  check(prefix_task_statuses(task, statuses, ROOM, &n, &err) == PREFIX_OK, "statuses");
  put("\nstatuses");
  for (i = 0; i < n; ++i) put_int(statuses[i]);
  put("\n");
  if (strcmp(kind, "generate") == 0) {
    for (i = 0; i < n; ++i) {
      check(prefix_task_item_text(task, i, text, LINE, NULL, &err) == PREFIX_OK, "text");
      put("written ");
      put(text);
      put("\n");
    }
  } else {
    check(prefix_task_all_values(task, values, LINE, &n, &err) == PREFIX_OK, "values");
    put("bits");
    for (i = 0; i < n; ++i) put_float(values[i]);
    put("\n");
  }
  prefix_task_release(task);
  kind[0] = 0;
  n_texts = n_labels = 0;
  prefix_options_release(options);
  options = NULL;
  check(prefix_options_create(&options, &err) == PREFIX_OK, "options");
}

/* A line that begins with this word; what follows it, or NULL. */
static const char* after(const char* line, const char* word) {
  const size_t n = strlen(word);
  return strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

static int is_result(const char* line) {
  return after(line, "tokens") || after(line, "statuses") || after(line, "bits") ||
         after(line, "written");
}

static void open_engine(const char* models, const char* model) {
  static char path[2 * LINE];
  snprintf(path, sizeof path, "%s/%s", models, model);
  check(prefix_engine_create(path, PREFIX_NUL, options, &engine, &err) == PREFIX_OK, "engine");
  check(prefix_tokenizer_open(path, PREFIX_NUL, &tokenizer, &err) == PREFIX_OK, "tokenizer");
  prefix_options_release(options);
  options = NULL;
  check(prefix_options_create(&options, &err) == PREFIX_OK, "options");
}

int main(int argc, char** argv) {
  static char line[LINE], model[LINE], wanted[1 << 16];
  int differs = 0, tasks = 0;
  FILE* file;
  check(argc == 3, "usage: golden_texts FILE MODELS");
  file = fopen(argv[1], "r");
  check(file != NULL, argv[1]);
  check(prefix_options_create(&options, &err) == PREFIX_OK, "options");
  for (;;) {
    const char* rest;
    const int more = fgets(line, LINE, file) != NULL;
    if (more && is_result(line)) { /* of the task above */
      check(strlen(wanted) + strlen(line) < sizeof wanted, "results");
      strcat(wanted, line);
      continue;
    }
    check(!more || strchr(line, '\n') != NULL, "a line is too long");
    if (more) line[strcspn(line, "\n")] = 0;
    if (!more || after(line, "task")) {
      if (engine == NULL && more) open_engine(argv[2], model);
      run_task();
      fputs(written, stdout);
      differs |= strcmp(written, wanted) != 0;
      wanted[0] = 0;
    }
    if (!more) break;
    if (line[0] == 0) continue;
    if (after(line, "task")) puts("");
    puts(line);
    if ((rest = after(line, "model"))) {
      strcpy(model, rest);
    } else if ((rest = after(line, "engine")) || (rest = after(line, "option"))) {
      set_option(rest);
    } else if ((rest = after(line, "task"))) {
      strcpy(kind, rest);
      ++tasks;
    } else if ((rest = after(line, "label")) && n_labels < ROOM) {
      labels[n_labels] = strcpy(words[0][n_labels], rest);
      ++n_labels;
    } else if ((rest = after(line, "text")) && n_texts < ROOM) {
      texts[n_texts] = strcpy(words[1][n_texts], rest);
      ++n_texts;
    } else {
      check(line[0] == '#', line);
    }
  }
  fclose(file);
  check(tasks > 0, "the file has no task");
  prefix_options_release(options);
  prefix_tokenizer_release(tokenizer);
  prefix_engine_release(engine);
  if (differs) fprintf(stderr, "golden_texts: the library computes something else\n");
  return differs;
}
