/* One interface file for every language that SWIG serves: bindings/swig/generate runs it.
 *
 * shapes_go.i and shapes_java.i say once how each shape of parameter looks in a language. parameters.i,
 * which generate writes from the headers, says which parameters have which shape. Nothing here names a
 * single function, so a new function of the headers needs no work as long as it keeps to the shapes. */
%module native

%{
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "prefix.h"
#include "prefix_text.h"

/* A list of texts comes as one array: where each text begins, as int64_t counted from the start of the array,
 * and where the last one ends; then the texts.
 *
 *   24 29 35 | Hello | world!        two texts
 *
 * C gets two arrays in one block: of pointers, and of lengths behind them. */
typedef struct {
  const char** texts;
  size_t* lengths;
  size_t count;
} prefix_text_list;
#define PREFIX_NO_TEXTS {NULL, NULL, 0}

/* 0: there is no memory. */
static int prefix_open_texts(const char* packed, size_t size, prefix_text_list* list) {
  int64_t begin, end;
  size_t i;
  if (size < 2 * sizeof begin) return 1; /* no texts */
  memcpy(&begin, packed, sizeof begin);
  list->count = (size_t)begin / sizeof begin - 1;
  list->texts = malloc(list->count * (sizeof *list->texts + sizeof *list->lengths));
  if (!list->texts) return 0;
  list->lengths = (size_t*)(void*)(list->texts + list->count);
  for (i = 0; i < list->count; ++i, begin = end) {
    memcpy(&end, packed + (i + 1) * sizeof end, sizeof end);
    list->texts[i] = packed + begin;
    list->lengths[i] = (size_t)(end - begin);
  }
  return 1;
}
%}

/* The values of the enums come from generate, as real constants of the language. */
%rename("$ignore", %$isenum) "";
%rename("$ignore", %$isenumitem) "";
%rename("$ignore", %$isconstant) "";

/* Structs travel as memory with the layout of C, handles as numbers: no proxy classes. */
%rename("$ignore", %$isclass) "";

/* int32_t, int64_t: their typemaps go by these names; SWIG must not look through to a type of C that may differ. */

#if defined(SWIGGO)
%include "shapes_go.i"
#elif defined(SWIGJAVA)
%include "shapes_java.i"
#endif

%include "parameters.i"
%include "prefix.h"
%include "prefix_text.h"
