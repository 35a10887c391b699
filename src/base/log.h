// Log messages of the library: to a callback, and into a ring that can be polled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace prefix {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };
using LogCallback = void (*)(int32_t level, const char* text, void* user);

// Never fails: without memory for the message there is none.
void log_message(LogLevel level, std::string_view text) noexcept;
// Returns when no call of the callback before it is running, or at once inside a callback.
void set_log_callback(LogCallback callback, void* user);
// The calling thread is in one.
bool inside_log_callback() noexcept;
// Drops what is often the last reference. Inside a callback another thread drops it, since the end
// of the object may wait for this one; without memory for that thread it stays.
void let_go(std::shared_ptr<void> object) noexcept;
// A pointer to the object whose last copy is dropped so, wherever it is.
template <typename T>
std::shared_ptr<T> droppable_anywhere(std::shared_ptr<T> object) {
  T* const raw = object.get();
  return {raw, [object = std::move(object)](T*) mutable { let_go(std::move(object)); }};
}
void set_log_level(LogLevel level);

// The oldest message; false when there is none. It is removed when it is shorter than `room`, in
// the same step, so that each message goes to one of several readers.
bool next_log(size_t room, LogLevel* level, std::string* text);

}  // namespace prefix
