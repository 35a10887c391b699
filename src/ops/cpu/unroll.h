// Unrolls the next loop whole, so that what it indexes stays in registers.
#pragma once

#if defined(__clang__)
#define PREFIX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PREFIX_UNROLL _Pragma("GCC unroll 32")
#endif
