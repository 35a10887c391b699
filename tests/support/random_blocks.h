// Matrices in the blocks of GGUF types: random codes, scales of a trained matrix's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "ops/dequant.h"
#include "ops/tensor_type.h"
#include "ops/weights.h"

namespace prefix::ops {

// The types that stay in their blocks.
inline constexpr TensorType kBlockTensorTypes[] = {
    TensorType::kQ8_0, TensorType::kQ4_0,   TensorType::kQ4_1, TensorType::kQ5_0,
    TensorType::kQ5_1, TensorType::kIQ4_NL, TensorType::kQ4_K, TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kMXFP4};

// Bytes at which a block has f16 numbers.
inline std::vector<size_t> half_places(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ6_K:
      return {208};
    case TensorType::kMXFP4:  // an exponent
      return {};
    default:
      return {0};
  }
}

// W[n, k]; row r is of types[r / each].
class BlockRowsSource final : public WeightSource {
 public:
  BlockRowsSource(std::vector<TensorType> types, int64_t each, int64_t n, int64_t k,
                  std::mt19937& random)
      : types_(std::move(types)), each_(each), k_(k) {
    for (int64_t row = 0; row < n; ++row) {
      const TensorType t = type(row);
      std::vector<std::byte>& bytes = rows_.emplace_back(static_cast<size_t>(blocks_bytes(t, k)));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(block_bytes(t))) {
        for (const size_t place : half_places(t)) set_half(bytes, at + place, small_half(random));
        if (t == TensorType::kMXFP4) bytes[at] = static_cast<std::byte>(112 + random() % 12);
      }
    }
  }

  TensorType type(int64_t row) const override { return types_[static_cast<size_t>(row / each_)]; }
  void read(int64_t row, std::byte* out) const override {
    const std::vector<std::byte>& bytes = rows_[static_cast<size_t>(row)];
    std::memcpy(out, bytes.data(), bytes.size());
  }
  std::vector<std::byte>& bytes(int64_t row) { return rows_[static_cast<size_t>(row)]; }
  std::vector<float> values(int64_t row) const {
    std::vector<float> out(static_cast<size_t>(k_));
    dequantise(type(row), rows_[static_cast<size_t>(row)].data(), k_, out.data());
    return out;
  }

  static void set_half(std::vector<std::byte>& bytes, size_t at, uint16_t half) {
    std::memcpy(bytes.data() + at, &half, sizeof half);
  }

 private:
  // From 2^-13 on, subnormal ones among them, of either sign.
  static uint16_t small_half(std::mt19937& random) {
    return static_cast<uint16_t>((random() % 2 << 15) | (random() % 6 << 10) | random() % 1024);
  }

  std::vector<TensorType> types_;
  int64_t each_, k_;
  std::vector<std::vector<std::byte>> rows_;
};

}  // namespace prefix::ops
