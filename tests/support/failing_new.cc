#include "failing_new.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace prefix::testing_support {
thread_local int64_t allocations_left = -1;
thread_local int64_t live_bytes = 0;
}  // namespace prefix::testing_support

using prefix::testing_support::allocations_left;
using prefix::testing_support::live_bytes;

// Not inlined: the compiler would see free() of what operator new gave, and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}
// What std::stable_sort asks, and gives back by the delete below.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
// As those of the standard library are, which a sanitizer replaces by its own.
[[gnu::noinline]] void* operator new[](size_t size) { return operator new(size); }
[[gnu::noinline]] void* operator new[](size_t size, const std::nothrow_t& none) noexcept {
  return operator new(size, none);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept { operator delete(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { operator delete(memory); }
