/* prefix_text.h with nothing before it, and beside prefix.h. */
#include <prefix.h>
#include <prefix_text.h>

typedef void (*function)(void);
#define X(name) (function) name,
static const function functions[] = {PREFIX_TEXT_FUNCTIONS(X)};
#undef X

int main(void) { return functions[0] != 0 ? 0 : 1; }
