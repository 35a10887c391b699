/* What frozen_core.c and frozen_text.c share: programs that were compiled with the headers of a
 * released interface and run with the newest libraries.
 *
 * A struct that the library fills lies between bytes that it has no business with:
 *
 *   | struct as the frozen header knows it | behind: 0x5a ... |
 *
 * A newer library knows more fields; they would be written into `behind`. */
#ifndef FROZEN_H
#define FROZEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, err.it.message); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == PREFIX_OK)

/* DECLARE(prefix_event, event); the struct is event.it, and CHECK_BEHIND(event) looks behind it. */
#define BEHIND 256
#define DECLARE(type, name)              \
  struct {                               \
    type it;                             \
    unsigned char behind[BEHIND];        \
  } name;                                \
  memset(&(name), 0, sizeof((name).it)); \
  memset((name).behind, 0x5a, BEHIND);   \
  (name).it.struct_size = (int32_t)sizeof((name).it)
#define CHECK_BEHIND(name)                                                                    \
  do {                                                                                        \
    int frozen_i;                                                                             \
    CHECK((name).it.struct_size == (int32_t)sizeof((name).it));                               \
    for (frozen_i = 0; frozen_i < BEHIND; ++frozen_i) CHECK((name).behind[frozen_i] == 0x5a); \
  } while (0)

#endif
