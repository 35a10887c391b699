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

/* Texts in a row, as the tasks take them. */
typedef struct sample_texts {
  char* bytes;
  size_t length;
  int64_t* offsets;
  size_t count;
} sample_texts;
void sample_add(sample_texts* texts, const char* text, size_t length);
/* One text a line, without empty lines; "-" is standard input. */
sample_texts sample_lines(const char* path);
/* A whole file as one text. */
sample_texts sample_file(const char* path);
const char* sample_text(const sample_texts* texts, size_t index, int* length);
void sample_free(sample_texts* texts);

/* Loads model and tokenizer, with progress on a terminal. */
void sample_open(const char* path, prefix_engine** engine, prefix_tokenizer** tokenizer);
/* Runs a task to its end, with progress on a terminal. */
void sample_run(prefix_task* task);

/* A JSON string with its quotes. */
void sample_json_string(FILE* out, const char* text, size_t length);
/* given, cached, shared and computed tokens, time and speed. */
void sample_table(const prefix_job_totals* totals);
void sample_json_totals(FILE* out, const prefix_job_totals* totals);

#endif
