// Writes safetensors bytes for tests, right or wrong in exactly one way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace prefix::testing_support {

using Bytes = std::vector<std::byte>;

inline void append(Bytes& bytes, const void* data, size_t size) {
  const auto* p = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), p, p + size);
}

// Length, header and data as given.
inline Bytes safetensors_file(uint64_t length, std::string_view header, size_t data_bytes) {
  Bytes bytes;
  append(bytes, &length, sizeof(length));
  append(bytes, header.data(), header.size());
  for (size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<std::byte>(i * 37 + 11));
  return bytes;
}

inline Bytes safetensors_file(std::string_view header, size_t data_bytes) {
  return safetensors_file(header.size(), header, data_bytes);
}

// One header entry: "name":{"dtype":..,"shape":[..],"data_offsets":[begin,end]}.
inline std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
  std::string text = "\"";
  text.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":");
  text.append(shape).append(",\"data_offsets\":").append(offsets).append("}");
  return text;
}

}  // namespace prefix::testing_support
