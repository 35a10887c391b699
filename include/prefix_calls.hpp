/* prefix_calls.hpp - how the C++ headers call the C interface: what becomes of a failure, of a
 * text, of a handle and of a buffer. prefix.hpp includes it.
 */
#ifndef PREFIX_CALLS_HPP
#define PREFIX_CALLS_HPP

#include <concepts>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "prefix.h"

namespace prefix {
inline namespace cpp1 {

/* A call that failed. */
class Error : public std::runtime_error {
 public:
  Error(prefix_status status, const prefix_error& error)
      : std::runtime_error(error.message), status_(status), function_(error.domain) {}
  prefix_status status() const noexcept { return status_; }
  /* "PREFIX_ERR_FORMAT" and so on, as it stands in prefix.h. */
  const char* name() const noexcept { return prefix_status_name(status_); }
  /* The function of the library that failed. */
  const std::string& function() const noexcept { return function_; }

 private:
  prefix_status status_;
  std::string function_;
};

/* A text as an argument: of whatever is a std::string_view. One itself would take {"a", "b"}, a
 * list of two texts, for the characters between two pointers. NULL, as getenv() gives it, is no
 * text: it throws Error, INVALID_ARGUMENT, and is not taken for an empty one. */
class Text : public std::string_view {
 public:
  constexpr Text() noexcept = default;
  template <typename Characters>
    requires std::convertible_to<const Characters&, std::string_view>
  constexpr Text(const Characters& text)  // NOLINT: whatever is a text
      : std::string_view(view(text)) {}

 private:
  template <typename Characters>
  static constexpr std::string_view view(const Characters& text) {
    if constexpr (std::is_null_pointer_v<Characters>) {
      refuse_null();
    } else {
      if constexpr (std::is_pointer_v<Characters>) {
        if (!text) refuse_null();
      }
      return static_cast<std::string_view>(text);
    }
  }
  [[noreturn]] static void refuse_null() {
    throw Error(PREFIX_ERR_INVALID_ARGUMENT,
                {sizeof(prefix_error), PREFIX_ERR_INVALID_ARGUMENT, {}, "a text is NULL"});
  }
};

namespace detail {

// Whether a call succeeded. What failed is thrown, or written where the caller wants it.
inline bool ok(prefix_status status, const prefix_error& failure, prefix_error* wanted) {
  if (status != PREFIX_OK && !wanted) throw Error(status, failure);
  if (wanted) {
    *wanted = failure;
    wanted->code = status;
  }
  return status == PREFIX_OK;
}

// The same where one or two statuses are answers, not failures: nothing to read yet, nothing found.
inline bool ok_unless(prefix_status status, const prefix_error& failure, prefix_error* wanted,
                      prefix_status answer, prefix_status another = PREFIX_OK) {
  if (status != answer && status != another) return ok(status, failure, wanted);
  const prefix_error none = PREFIX_ERROR_INIT;
  return ok(PREFIX_OK, none, wanted) && status == PREFIX_OK;
}

template <typename T, void (*Release)(T*)>
struct Releaser {
  void operator()(T* handle) const noexcept { Release(handle); }
};
template <typename T, void (*Release)(T*)>
using Handle = std::unique_ptr<T, Releaser<T, Release>>;

}  // namespace detail

/* Helpers for functions of C that this header does not wrap. check: throws unless the status is OK.
 * call: the same of function(error). read: what get(buffer, capacity, needed, error) writes, with
 * room for `guess` elements at first, then for as many as it wants. */
inline void check(prefix_status status, const prefix_error& failure) {
  detail::ok(status, failure, nullptr);
}
template <typename Function>
bool call(prefix_error* wanted, const Function& function) {
  prefix_error failure = PREFIX_ERROR_INIT;
  const prefix_status status = function(&failure);
  return detail::ok(status, failure, wanted);
}
template <typename Buffer, typename Get>
Buffer read(size_t guess, const Get& get, prefix_error* wanted = nullptr) {
  Buffer buffer(guess + 1, typename Buffer::value_type());  // text ends with a zero
  while (true) {
    size_t needed = 0;
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = get(buffer.data(), buffer.size(), &needed, &failure);
    if (status == PREFIX_ERR_BUFFER_TOO_SMALL) {
      buffer.resize(needed + 1);
      continue;
    }
    buffer.resize(detail::ok(status, failure, wanted) ? needed : 0);
    return buffer;
  }
}

namespace detail {
// The handle that create(out, error) makes; NULL when it failed.
template <typename T, typename Create>
T* made(prefix_error* wanted, const Create& create) {
  T* handle = nullptr;
  call(wanted, [&](prefix_error* e) { return create(&handle, e); });
  return handle;
}
// The value that get(out, error) writes; as it was when it failed.
template <typename T, typename Get>
T filled(T value, prefix_error* wanted, const Get& get) {
  call(wanted, [&](prefix_error* e) { return get(&value, e); });
  return value;
}
}  // namespace detail

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_CALLS_HPP */
