// An operator new that can be told to fail, and what calls of the library make of it.
#pragma once

#include <cstdint>
#include <functional>

#include "abi_support.h"

namespace prefix_abi {

enum class Fail { kNever, kOnce, kFromThenOn };

// Runs the call with the nth allocation of this thread (or of all the others) failing. True when
// there were so many.
bool failing(Fail how, int64_t nth, const std::function<void()>& call, bool others = false);
// How many more allocations the last call would have had to make until the nth failed.
int64_t allocations_left();

struct Case {
  const char* name;
  std::function<prefix_status(prefix_error*)> call;
  std::function<void(bool)> check;  // after each call: did it succeed?
  bool by_others = false;           // threads of the library do the work of the call
};

// Lets each allocation of the call fail in turn. The answer is OUT_OF_MEMORY with a sentence, or OK
// where the library can do without; then `check` sees whether anything changed.
void every_allocation(const Case& c, int64_t stride = 1);

// All that the cache has can go: nothing holds it any more.
void expect_nothing_left(prefix_engine* engine);

}  // namespace prefix_abi
