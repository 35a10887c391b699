// Log messages of the library: to a callback, and into a ring that can be polled.
#pragma once

#include <cstdint>
#include <string>

namespace prefix {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };
using LogCallback = void (*)(int32_t level, const char* text, void* user);

void log_message(LogLevel level, const std::string& text);
void set_log_callback(LogCallback callback, void* user);
void set_log_level(LogLevel level);

// The oldest message; false when there is none. pop_log removes it.
bool peek_log(LogLevel* level, std::string* text);
void pop_log();

}  // namespace prefix
