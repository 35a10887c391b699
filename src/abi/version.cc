// What the library tells without an engine: its version, features, the names of statuses, its log.
#include <array>
#include <cstdio>

#include "abi/entry.h"
#include "abi/version_info.h"
#include "base/log.h"
#include "ops/op.h"

namespace {

using prefix::Code;

// The codes of the core and of the header are one list.
static_assert(PREFIX_ERR_INVALID_ARGUMENT == static_cast<int32_t>(Code::kInvalidArgument));
static_assert(PREFIX_ERR_INVALID_UTF8 == static_cast<int32_t>(Code::kInvalidUtf8));
static_assert(PREFIX_ERR_UNKNOWN_OPTION == static_cast<int32_t>(Code::kUnknownOption));
static_assert(PREFIX_ERR_OUT_OF_RANGE == static_cast<int32_t>(Code::kOutOfRange));
static_assert(PREFIX_ERR_BUFFER_TOO_SMALL == static_cast<int32_t>(Code::kBufferTooSmall));
static_assert(PREFIX_ERR_STRUCT_TOO_OLD == static_cast<int32_t>(Code::kStructTooOld));
static_assert(PREFIX_ERR_MISUSE == static_cast<int32_t>(Code::kMisuse));
static_assert(PREFIX_ERR_FORKED == static_cast<int32_t>(Code::kForked));
static_assert(PREFIX_ERR_NOT_FOUND == static_cast<int32_t>(Code::kNotFound));
static_assert(PREFIX_ERR_IO == static_cast<int32_t>(Code::kIo));
static_assert(PREFIX_ERR_FORMAT == static_cast<int32_t>(Code::kFormat));
static_assert(PREFIX_ERR_UNSUPPORTED_MODEL == static_cast<int32_t>(Code::kUnsupportedModel));
static_assert(PREFIX_ERR_UNSUPPORTED_DEVICE == static_cast<int32_t>(Code::kUnsupportedDevice));
static_assert(PREFIX_ERR_INCOMPATIBLE_SNAPSHOT ==
              static_cast<int32_t>(Code::kIncompatibleSnapshot));
static_assert(PREFIX_ERR_PROMPT_TOO_LONG == static_cast<int32_t>(Code::kPromptTooLong));
static_assert(PREFIX_ERR_NOT_FINITE == static_cast<int32_t>(Code::kNotFinite));
static_assert(PREFIX_ERR_OUT_OF_MEMORY == static_cast<int32_t>(Code::kOutOfMemory));
static_assert(PREFIX_ERR_OUT_OF_DEVICE_MEMORY == static_cast<int32_t>(Code::kOutOfDeviceMemory));
static_assert(PREFIX_ERR_CACHE_FULL == static_cast<int32_t>(Code::kCacheFull));
static_assert(PREFIX_ERR_QUEUE_FULL == static_cast<int32_t>(Code::kQueueFull));
static_assert(PREFIX_ERR_TIMEOUT == static_cast<int32_t>(Code::kTimeout));
static_assert(PREFIX_ERR_DEADLINE == static_cast<int32_t>(Code::kDeadline));
static_assert(PREFIX_ERR_CANCELLED == static_cast<int32_t>(Code::kCancelled));
static_assert(PREFIX_ERR_DEVICE_LOST == static_cast<int32_t>(Code::kDeviceLost));
static_assert(PREFIX_ERR_ENGINE_FAILED == static_cast<int32_t>(Code::kEngineFailed));
static_assert(PREFIX_ERR_NO_EVENT == static_cast<int32_t>(Code::kNoEvent));
static_assert(PREFIX_ERR_INTERNAL == static_cast<int32_t>(Code::kInternal));

struct StatusName {
  prefix_status status;
  const char* name;
};

#define STATUS(name) {name, #name}
constexpr StatusName kStatuses[] = {
    STATUS(PREFIX_OK),
    STATUS(PREFIX_ERR_INVALID_ARGUMENT),
    STATUS(PREFIX_ERR_INVALID_UTF8),
    STATUS(PREFIX_ERR_UNKNOWN_OPTION),
    STATUS(PREFIX_ERR_OUT_OF_RANGE),
    STATUS(PREFIX_ERR_STRUCT_TOO_OLD),
    STATUS(PREFIX_ERR_BUFFER_TOO_SMALL),
    STATUS(PREFIX_ERR_MISUSE),
    STATUS(PREFIX_ERR_FORKED),
    STATUS(PREFIX_ERR_NOT_FOUND),
    STATUS(PREFIX_ERR_IO),
    STATUS(PREFIX_ERR_FORMAT),
    STATUS(PREFIX_ERR_UNSUPPORTED_MODEL),
    STATUS(PREFIX_ERR_UNSUPPORTED_DEVICE),
    STATUS(PREFIX_ERR_INCOMPATIBLE_SNAPSHOT),
    STATUS(PREFIX_ERR_PROMPT_TOO_LONG),
    STATUS(PREFIX_ERR_NOT_FINITE),
    STATUS(PREFIX_ERR_OUT_OF_MEMORY),
    STATUS(PREFIX_ERR_OUT_OF_DEVICE_MEMORY),
    STATUS(PREFIX_ERR_CACHE_FULL),
    STATUS(PREFIX_ERR_QUEUE_FULL),
    STATUS(PREFIX_ERR_TIMEOUT),
    STATUS(PREFIX_ERR_CANCELLED),
    STATUS(PREFIX_ERR_DEADLINE),
    STATUS(PREFIX_ERR_DEVICE_LOST),
    STATUS(PREFIX_ERR_ENGINE_FAILED),
    STATUS(PREFIX_ERR_NO_EVENT),
    STATUS(PREFIX_ERR_INTERNAL),
};
#undef STATUS

constexpr const char* kBuilt[] = {"cpu", "bf16", "f32", "gguf", "safetensors"};

struct BuildInfo {
  char text[256];
};

// Written once, without the heap: it must work when nothing else does.
const BuildInfo& build_info() {
  static const BuildInfo kInfo = [] {
    std::string_view chosen = "no usable instruction set";
    for (const prefix::ops::IsaLevel& level : prefix::ops::cpu_isa_levels())
      if (level.chosen) chosen = level.name;
    BuildInfo info;
    std::snprintf(info.text, sizeof(info.text),
                  "libprefix " PREFIX_VERSION_TEXT ", ABI %d, " PREFIX_COMPILER ", %.*s",
                  PREFIX_ABI_VERSION, static_cast<int>(chosen.size()), chosen.data());
    return info;
  }();
  return kInfo;
}

}  // namespace

extern "C" {

int32_t prefix_version(void) { return PREFIX_VERSION_NUMBER; }
const char* prefix_version_string(void) { return PREFIX_VERSION_TEXT; }
int32_t prefix_abi_version(void) { return PREFIX_ABI_VERSION; }
const char* prefix_build_info(void) { return build_info().text; }

size_t prefix_feature_count(void) {
  size_t n = std::size(kBuilt);
  for (const prefix::ops::IsaLevel& level : prefix::ops::cpu_isa_levels()) n += level.available;
  return n;
}

const char* prefix_feature_name(size_t index) {
  if (index < std::size(kBuilt)) return kBuilt[index];
  index -= std::size(kBuilt);
  for (const prefix::ops::IsaLevel& level : prefix::ops::cpu_isa_levels())
    if (level.available && index-- == 0) return level.name.data();
  return nullptr;
}

int32_t prefix_has_feature(const char* name, size_t name_len) {
  if (!name) return 0;
  const std::string_view wanted(name, name_len == PREFIX_NUL ? std::strlen(name) : name_len);
  for (size_t i = 0; const char* feature = prefix_feature_name(i); ++i)
    if (wanted == feature) return 1;
  return 0;
}

const char* prefix_status_name(prefix_status status) {
  for (const StatusName& s : kStatuses)
    if (s.status == status) return s.name;
  return "PREFIX_ERR_UNKNOWN";
}

int32_t prefix_status_is_retryable(prefix_status status) {
  return status == PREFIX_ERR_QUEUE_FULL || status == PREFIX_ERR_TIMEOUT ||
         status == PREFIX_ERR_NO_EVENT;
}

void prefix_set_log_callback(prefix_log_callback callback, void* user) {
  prefix::abi::guard("prefix_set_log_callback", nullptr,
                     [&] { prefix::set_log_callback(callback, user); });
}

void prefix_set_log_level(int32_t level) {
  prefix::abi::guard("prefix_set_log_level", nullptr, [&] {
    prefix::set_log_level(static_cast<prefix::LogLevel>(std::clamp(level, 0, 4)));
  });
}

prefix_status prefix_log_write(int32_t level, const char* text, size_t text_len,
                               prefix_error* err) {
  return prefix::abi::guard("prefix_log_write", err, [&] {
    const std::string_view message = prefix::abi::text_in(text, text_len, "text");
    if (level < PREFIX_LOG_DEBUG || level > PREFIX_LOG_ERROR)
      prefix::fail(prefix::Code::kOutOfRange, "level is ", level, ", outside [0, ",
                   int{PREFIX_LOG_ERROR}, "]");
    prefix::log_message(static_cast<prefix::LogLevel>(level), message);
  });
}

prefix_status prefix_log_next(int32_t* level, char* buf, size_t cap, size_t* needed) {
  return prefix::abi::guard("prefix_log_next", nullptr, [&] {
    prefix::LogLevel found;
    std::string text;
    if (!prefix::next_log(buf ? cap : 0, &found, &text))
      prefix::fail(Code::kNoEvent, "no message is waiting");
    prefix::abi::text_out(text, buf, cap, needed);
    if (level) *level = static_cast<int32_t>(found);
  });
}

}  // extern "C"
