/* A library that says it is libprefix and has nothing else: too old, or damaged, as ABI says. */
#include <stdint.h>

__attribute__((visibility("default"))) int32_t prefix_abi_version(void);
int32_t prefix_abi_version(void) { return ABI; }
