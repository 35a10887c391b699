// Writes GGUF bytes for tests, right or wrong in exactly one way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace prefix::testing_support {

// Value types of GGUF.
struct GgufType {
  static constexpr uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6,
                            kBool = 7, kString = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;
};

class GgufWriter {
 public:
  struct TensorInfo {
    std::string name;
    std::vector<uint64_t> dimensions;  // fastest first
    uint32_t type = 0;                 // 0 = F32
    uint64_t offset = 0;
  };

  // Overrides of what would be written.
  uint32_t version = 3;
  int64_t tensor_count = -1, key_count = -1;
  uint64_t alignment = 32;  // of the data; set the key general.alignment to match
  std::vector<TensorInfo> tensors;
  std::vector<std::byte> data;

  // A key of any scalar type: the value's bytes are written as they are.
  template <typename T>
  GgufWriter& key(std::string_view name, uint32_t type, T value) {
    text(keys_, name);
    put(keys_, type);
    put(keys_, value);
    ++keys_written_;
    return *this;
  }
  GgufWriter& integer(std::string_view name, uint32_t value) {
    return key(name, GgufType::kU32, value);
  }
  GgufWriter& number(std::string_view name, float value) {
    return key(name, GgufType::kF32, value);
  }
  GgufWriter& string(std::string_view name, std::string_view value) {
    text(keys_, name);
    put(keys_, GgufType::kString);
    text(keys_, value);
    ++keys_written_;
    return *this;
  }
  // A list whose length and elements need not agree.
  GgufWriter& list(std::string_view name, uint32_t type, uint64_t length,
                   const std::vector<std::byte>& elements) {
    text(keys_, name);
    put(keys_, GgufType::kArray);
    put(keys_, type);
    put(keys_, length);
    keys_.insert(keys_.end(), elements.begin(), elements.end());
    ++keys_written_;
    return *this;
  }
  // Raw bytes where a key would be.
  GgufWriter& raw(const std::vector<std::byte>& bytes) {
    keys_.insert(keys_.end(), bytes.begin(), bytes.end());
    ++keys_written_;
    return *this;
  }
  // A tensor behind the ones before it, padded; `bytes` are made up.
  GgufWriter& tensor(std::string_view name, std::vector<uint64_t> dimensions, uint32_t type,
                     size_t bytes) {
    while (data.size() % alignment != 0) data.push_back({});
    tensors.push_back({std::string(name), std::move(dimensions), type, data.size()});
    for (size_t i = 0; i < bytes; ++i) data.push_back(static_cast<std::byte>(i * 7 & 63));
    return *this;
  }
  GgufWriter& f32(std::string_view name, std::vector<uint64_t> dimensions,
                  const std::vector<float>& values) {
    tensor(name, std::move(dimensions), 0, values.size() * 4);
    const auto raw = std::as_bytes(std::span(values));
    std::copy(raw.begin(), raw.end(), data.end() - static_cast<std::ptrdiff_t>(raw.size()));
    return *this;
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    for (const char c : {'G', 'G', 'U', 'F'}) out.push_back(static_cast<std::byte>(c));
    put(out, version);
    put(out, tensor_count >= 0 ? static_cast<uint64_t>(tensor_count) : tensors.size());
    put(out, key_count >= 0 ? static_cast<uint64_t>(key_count) : keys_written_);
    out.insert(out.end(), keys_.begin(), keys_.end());
    for (const TensorInfo& t : tensors) {
      text(out, t.name);
      put(out, static_cast<uint32_t>(t.dimensions.size()));
      for (const uint64_t d : t.dimensions) put(out, d);
      put(out, t.type);
      put(out, t.offset);
    }
    while (out.size() % alignment != 0) out.push_back({});
    out.insert(out.end(), data.begin(), data.end());
    return out;
  }

  template <typename T>
  static void put(std::vector<std::byte>& out, T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), p, p + sizeof(value));
  }
  static void text(std::vector<std::byte>& out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), p, p + text.size());
  }

 private:
  std::vector<std::byte> keys_;
  uint64_t keys_written_ = 0;
};

}  // namespace prefix::testing_support
