// What every C entry point shares: exceptions become statuses, text and arrays go to the caller's
// buffers by the rule of the header, structs by their size.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "abi/handles.h"
#include "base/failure.h"
#include "base/floats.h"
#include "base/status.h"
#include "engine/engine_load.h"
#include "prefix.h"

struct prefix_options {};
struct prefix_pool {};
struct prefix_engine {};
struct prefix_batch {};
struct prefix_job {};
struct prefix_queue {};
struct prefix_sim {};
struct prefix_source {};
struct prefix_constraint {};

namespace prefix::abi {

struct OptionsObject {
  std::mutex mutex;
  Options options;
};

struct SourceObject {
  std::mutex mutex;
  FedFiles files;
};

struct EngineObject {
  ~EngineObject() {
    if (load) load->stop();
  }
  std::shared_ptr<EngineLoad> load;  // null until the options have been checked
};

struct BatchObject {
  std::mutex mutex;
  std::shared_ptr<EngineObject> engine;  // null: only to plan
  std::vector<RequestSpec> requests;
  std::vector<std::string> namespaces;  // of each request
};

struct JobObject {
  ~JobObject() {
    if (job && !detached) job->cancel();
  }
  std::atomic<bool> detached{false};
  std::shared_ptr<Job> job;  // null until it is submitted, which may fail
  std::shared_ptr<EngineObject> engine;
};

// A copy, which later changes of the handle do not reach; the defaults where there is no handle.
inline Options options_of(const prefix_options* handle) {
  if (!handle) return {};
  const auto object = find<OptionsObject>(Kind::kOptions, handle, "options");
  std::lock_guard lock(object->mutex);
  return object->options;
}
inline std::shared_ptr<EngineLoad> load_of(const prefix_engine* handle) {
  return find<EngineObject>(Kind::kEngine, handle, "the engine")->load;
}
// Throws while it loads, and when that failed.
inline std::shared_ptr<Engine> engine_of(const prefix_engine* handle) {
  return find<EngineObject>(Kind::kEngine, handle, "the engine")->load->engine();
}
inline std::shared_ptr<CompletionQueue> queue_of(const prefix_queue* handle) {
  return find<CompletionQueue>(Kind::kQueue, handle, "the queue");
}
// Those that a source has now. Throws when it has none.
inline FedFiles files_of(const prefix_source* handle) {
  const auto object = find<SourceObject>(Kind::kSource, handle, "the source");
  std::lock_guard lock(object->mutex);
  if (object->files.names().empty()) fail(Code::kInvalidArgument, "the source has no files");
  return object->files;
}
inline std::shared_ptr<Job> job_of(const prefix_job* handle) {
  return find<JobObject>(Kind::kJob, handle, "the job")->job;
}

void write_error(prefix_error* err, const char* function, Code code, std::string_view message);

// What a call that waits has found. That nothing came is no failure: programs that look again and
// again would pay for an exception each time.
struct Waited {
  Code code = Code::kOk;
  std::string message;
};

// The body returns nothing, or a Waited. All threads of the library are started in such a body, and
// compute as it does.
template <typename Body>
prefix_status guard(const char* function, prefix_error* err, const Body& body) noexcept {
  const PlainFloats floats;
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<const Body&>, Waited>) {
      const Waited waited = body();
      if (waited.code != Code::kOk) write_error(err, function, waited.code, waited.message);
      return static_cast<prefix_status>(waited.code);
    } else {
      body();
      return PREFIX_OK;
    }
  } catch (...) {
    Code failure = Code::kInternal;
    tell_failure([&](Code code, std::string_view message) {
      failure = code;
      write_error(err, function, code, message);
    });
    return static_cast<prefix_status>(failure);
  }
}

inline void require(const void* pointer, const char* name) {
  if (!pointer) fail(Code::kInvalidArgument, name, " is NULL");
}

// No text or array of a caller is longer; a length beyond it is a mistake, caught before a read.
inline constexpr size_t kMaxInputBytes = size_t{1} << 40;  // bytes

// Shortest text that reads back as the same number.
std::string number_text(double number);

// Text in: UTF-8, checked; `name` is for the message.
std::string_view text_in(const char* text, size_t length, const char* name);

// A path of the file system, as the system takes it.
std::string path_in(const char* path, size_t length);

// An array of the caller, where it is too large to copy: NULL is allowed for none.
template <typename T>
std::span<const T> span_in(const T* data, size_t n, const char* name) {
  if (n > 0) require(data, name);
  if (n > kMaxInputBytes / sizeof(T))
    fail(Code::kOutOfRange, name, " is said to have ", n, " elements");
  return {data, n};
}

// The same as a copy, whatever the caller does to the array from now on.
template <typename T>
std::vector<T> array_in(const T* data, size_t n, const char* name) {
  const std::span<const T> all = span_in(data, n, name);
  return std::vector<T>(all.begin(), all.end());
}

// Consecutive pieces of an array: piece i is all[offsets[i] .. offsets[i + 1]). `pieces` names them
// in messages.
template <typename T>
std::vector<std::span<const T>> pieces_in(std::span<const T> all, const int64_t* offsets,
                                          size_t n_offsets, const char* pieces) {
  if (n_offsets < 1)
    fail(Code::kInvalidArgument, "n_offsets is 0; there is one more of them than ", pieces);
  const std::vector<int64_t> at = array_in(offsets, n_offsets, "offsets");
  if (at.front() != 0 || at.back() != static_cast<int64_t>(all.size()))
    fail(Code::kOutOfRange, "offsets run from ", at.front(), " to ", at.back(),
         "; they must run from 0 to the length of all ", pieces, ", ", all.size());
  std::vector<std::span<const T>> list;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    if (at[i + 1] > at.back())
      fail(Code::kOutOfRange, "offsets[", i + 1, "] is ", at[i + 1], ", above the length of all ",
           pieces, ", ", at.back());
    if (at[i] > at[i + 1])
      fail(Code::kOutOfRange, "offsets[", i + 1, "] is ", at[i + 1], ", below the one before it, ",
           at[i]);
    list.push_back(all.subspan(static_cast<size_t>(at[i]), static_cast<size_t>(at[i + 1] - at[i])));
  }
  return list;
}

// Whether the caller's buffer takes n elements: false when it only asks how many there are.
inline bool takes(size_t n, const void* out, const char* name, size_t capacity) {
  if (capacity == 0) return false;
  require(out, name);
  if (capacity < n)
    fail(Code::kBufferTooSmall, name, " has room for ", capacity, "; ", n, " are needed");
  return true;
}

template <typename T>
void array_out(const T* data, size_t n, T* out, size_t capacity, size_t* needed,
               const char* name = "out") {
  if (capacity > 0) require(out, name);
  if (needed) *needed = n;
  if (takes(n, out, name, capacity) && n > 0) std::memcpy(out, data, n * sizeof(T));
}

// With a zero at the end, which `needed` does not count.
inline void text_out(std::string_view text, char* buf, size_t capacity, size_t* needed) {
  if (capacity > 0) require(buf, "buf");
  if (needed) *needed = text.size();
  if (!takes(text.size() + 1, buf, "buf", capacity)) return;
  std::memcpy(buf, text.data(), text.size());
  buf[text.size()] = 0;
}

template <typename T>
void require_struct(const T* out, size_t first_layout = sizeof(T)) {
  require(out, "out");
  const int32_t size = out->struct_size;
  if (size < 0 || static_cast<size_t>(size) < first_layout)
    fail(Code::kStructTooOld, "struct_size is ", size, "; this struct has at least ", first_layout,
         " bytes");
}

// Copies the fields that both sides know; struct_size of `out` stays the caller's.
template <typename T>
void struct_out(T value, T* out, size_t first_layout = sizeof(T)) {
  require_struct(out, first_layout);
  const int32_t size = out->struct_size;
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(int32_t),
              reinterpret_cast<const char*>(&value) + sizeof(int32_t),
              std::min(static_cast<size_t>(size), sizeof(T)) - sizeof(int32_t));
}

}  // namespace prefix::abi
