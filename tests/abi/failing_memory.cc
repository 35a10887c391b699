#include "failing_memory.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

using prefix_abi::Fail;

// Counted down by allocations of the armed threads.
std::atomic<Fail> mode{Fail::kNever};
std::atomic<int64_t> left{0};
std::atomic<bool> other_threads{false};
thread_local bool armed = false;

bool must_fail() {
  const Fail now = mode.load(std::memory_order_relaxed);
  if (now == Fail::kNever || armed == other_threads.load(std::memory_order_relaxed)) return false;
  const int64_t n = left.fetch_sub(1, std::memory_order_relaxed);
  return n == 0 || (n < 0 && now == Fail::kFromThenOn);
}

void* allocate(size_t size, size_t alignment) {
  if (must_fail()) throw std::bad_alloc();
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size);
  } else if (posix_memalign(&memory, alignment, size) != 0) {
    memory = nullptr;
  }
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All of them: a sanitizer brings its own set, and memory of one set must not go to the other. g++
// sees free() where a delete was inlined and a new was not, and takes them for strangers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) { return allocate(size, 1); }
void* operator new[](size_t size) { return allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return must_fail() ? nullptr : std::malloc(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return must_fail() ? nullptr : std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace prefix_abi {

bool failing(Fail how, int64_t nth, const std::function<void()>& call, bool others) {
  left = nth;
  other_threads = others;
  armed = true;
  mode = how;
  call();
  mode = Fail::kNever;
  armed = false;
  return left < 0;
}

int64_t allocations_left() { return left; }

void every_allocation(const Case& c, int64_t stride) {
  int64_t failures = 0;
  for (const Fail how : {Fail::kOnce, Fail::kFromThenOn}) {
    bool more = true;
    for (int64_t nth = 0; more; nth += nth < 50 ? 1 : stride) {
      SCOPED_TRACE(std::string(c.name) + ", allocation " + std::to_string(nth));
      Error error;
      prefix_status status = PREFIX_OK;
      more = failing(how, nth, [&] { status = c.call(&error); }, c.by_others);
      if (status != PREFIX_OK) {
        ++failures;
        ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY)
            << prefix_status_name(status) << ": " << error.message;
        EXPECT_NE(std::string_view(error.message).find("memory"), std::string_view::npos)
            << error.message;
        EXPECT_NE(error.domain[0], 0);
      }
      EXPECT_TRUE(more || status == PREFIX_OK) << "nothing failed";
      if (c.check) c.check(status == PREFIX_OK);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(failures, 0) << c.name << " allocates nothing: is operator new not shared?";
}

void expect_nothing_left(prefix_engine* engine) {
  EXPECT_EQ(prefix_cache_trim(engine, 0, nullptr, nullptr), PREFIX_OK);
  EXPECT_EQ(stats_of(engine).pages_used, 0);
  EXPECT_EQ(stats_of(engine).tree_tokens, 0);
}

}  // namespace prefix_abi
