/* What the samples share: arguments, lists of texts, progress, the closing table. */
#ifndef PREFIX_SAMPLE_H
#define PREFIX_SAMPLE_H

#include <prefix_text.h>
#include <stdio.h>

/* The program's name in messages. */
extern const char* sample_name;

/* Prints "NAME: message" and ends with code 1; for what the user can mend, with code 2. */
void sample_fail(const prefix_error* err);
void sample_usage(const char* message);

/* Takes "--name value" (or with is_flag just "--name") out of the arguments; NULL when it is
 * absent. */
const char* sample_option(int* argc, char** argv, const char* name, int is_flag);
/* After the options: what still begins with "--" is unknown. */
void sample_no_more_options(int argc, char** argv);

/* Texts, each with a zero at its end, as the tasks take them. */
typedef struct sample_texts {
  const char** texts;
  size_t* lengths;
  size_t count;
} sample_texts;
/* Copies the text. */
void sample_add(sample_texts* texts, const char* text, size_t length);
/* One text a line, without empty lines; "-" is standard input. */
sample_texts sample_lines(const char* path);
/* A whole file as one text. */
sample_texts sample_file(const char* path);
void sample_free(sample_texts* texts);

/* A text that grows; bytes is NULL while it is empty. */
typedef struct sample_string {
  char* bytes;
  size_t length, room;
} sample_string;
void sample_append(sample_string* string, const char* text, size_t length);

/* Loads model and tokenizer, with progress on a terminal. */
void sample_open(const char* path, prefix_engine** engine, prefix_tokenizer** tokenizer);
/* A new handle with a recipe and with a number; what is NULL keeps its default. */
prefix_options* sample_options(const char* recipe, const char* number_key, const char* number);
/* Waits for a task that was submitted, with progress on a terminal. */
void sample_wait(prefix_task* task);
/* The next event of a task, with as much room for its text as it needs; 0 when there are no more. */
int sample_next(prefix_task* task, prefix_event* event, sample_string* text);

/* A JSON string with its quotes. */
void sample_json_string(FILE* out, const char* text, size_t length);
/* given, cached, shared and computed tokens, time and speed. */
void sample_table(const prefix_job_totals* totals);
void sample_json_totals(FILE* out, const prefix_job_totals* totals);

#endif
