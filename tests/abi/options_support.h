// One option at a time, by its name.
#pragma once

#include "abi_support.h"

namespace prefix_abi {

inline std::string get(const prefix_options* options, const char* key) {
  return text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_options_get(options, key, PREFIX_NUL, buf, cap, needed, e);
  });
}

inline void set(prefix_options* options, const std::string& key, const std::string& value,
                prefix_status wanted, std::initializer_list<std::string_view> parts = {}) {
  SCOPED_TRACE(key + " = " + value);
  expect(
      wanted,
      [&](prefix_error* e) {
        return prefix_options_set(options, key.data(), key.size(), value.data(), value.size(), e);
      },
      parts);
}

}  // namespace prefix_abi
