/* prefix.h with nothing before it, and twice. */
#include <prefix.h>

/* The macros must be good initialisers in every language. */
static prefix_error error = PREFIX_ERROR_INIT;
static prefix_event event = PREFIX_EVENT_INIT;

typedef void (*function)(void);
#define X(name) (function) name,
static const function functions[] = {PREFIX_FUNCTIONS(X)};
#undef X

int main(void) { return error.code == 0 && event.kind == 0 && functions[0] != 0 ? 0 : 1; }
