// A software model of the AMX tile registers, behind the interface of HardwareTiles.
//
// It follows the instruction descriptions: registers are 16 rows of 64 bytes, a configuration
// clears them and sets their shapes, loads clear what lies beyond the shape, and tdpbf16ps sums the
// even and the odd members of the pairs apart before it adds both to C.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/cpu/amx_config.h"
#include "ops/cpu/pack.h"

namespace prefix::ops::testing {

struct EmulatedTiles {
  struct Register {
    alignas(64) unsigned char rows[16][64];
  };
  static inline thread_local Register registers[8];
  static inline thread_local TileConfig config;
  static inline thread_local bool configured = false;
  static inline thread_local int configurations = 0;

  static void configure(const TileConfig& wanted) {
    config = wanted;
    ASSERT_EQ(config.palette, 1);
    ASSERT_EQ(config.start_row, 0);
    for (int i = 0; i < 16; ++i) {
      ASSERT_LE(config.rows[i], i < 8 ? 16 : 0);
      ASSERT_LE(config.bytes_per_row[i], i < 8 ? 64 : 0);
      ASSERT_EQ(config.rows[i] == 0, config.bytes_per_row[i] == 0);
    }
    std::memset(registers, 0, sizeof registers);
    configured = true;
    ++configurations;
  }
  static void release() { configured = false; }

  template <int kTile>
  static void zero() {
    ASSERT_TRUE(configured);
    std::memset(&registers[kTile], 0, sizeof(Register));
  }
  template <int kTile>
  static void load(const void* base, int64_t stride) {
    zero<kTile>();
    for (int r = 0; r < config.rows[kTile]; ++r) {
      std::memcpy(registers[kTile].rows[r], static_cast<const char*>(base) + r * stride,
                  config.bytes_per_row[kTile]);
    }
  }
  template <int kTile>
  static void load_past(const void* base, int64_t stride) {
    load<kTile>(base, stride);
  }
  template <int kTile>
  static void store(void* base, int64_t stride) {
    ASSERT_TRUE(configured);
    for (int r = 0; r < config.rows[kTile]; ++r) {
      std::memcpy(static_cast<char*>(base) + r * stride, registers[kTile].rows[r],
                  config.bytes_per_row[kTile]);
    }
  }
  template <int kC, int kA, int kB>
  static void multiply() {
    ASSERT_TRUE(configured);
    // Anything else raises #UD.
    ASSERT_EQ(config.rows[kC], config.rows[kA]);
    ASSERT_EQ(config.bytes_per_row[kC], config.bytes_per_row[kB]);
    ASSERT_EQ(config.bytes_per_row[kA] / 4, config.rows[kB]);
    for (int m = 0; m < config.rows[kC]; ++m) {
      for (int n = 0; n < config.bytes_per_row[kC] / 4; ++n) {
        float sums[2] = {0, 0};
        for (int k = 0; k < config.bytes_per_row[kA] / 4; ++k) {
          for (int half = 0; half < 2; ++half) {
            sums[half] =
                std::fma(element(kA, m, 2 * k + half), element(kB, k, 2 * n + half), sums[half]);
          }
        }
        float c;
        std::memcpy(&c, &registers[kC].rows[m][4 * n], 4);
        c += sums[0] + sums[1];
        std::memcpy(&registers[kC].rows[m][4 * n], &c, 4);
      }
    }
  }

  template <int kC, int kA, int kB>
  static void multiply_int8() {
    multiply_bytes<kC, kA, kB, int8_t, uint8_t>();
  }
  template <int kC, int kA, int kB>
  static void multiply_uint8() {
    multiply_bytes<kC, kA, kB, uint8_t, int8_t>();
  }

 private:
  template <int kC, int kA, int kB, class A, class B>
  static void multiply_bytes() {
    ASSERT_TRUE(configured);
    ASSERT_EQ(config.rows[kC], config.rows[kA]);
    ASSERT_EQ(config.bytes_per_row[kC], config.bytes_per_row[kB]);
    ASSERT_EQ(config.bytes_per_row[kA] / 4, config.rows[kB]);
    for (int m = 0; m < config.rows[kC]; ++m) {
      for (int n = 0; n < config.bytes_per_row[kC] / 4; ++n) {
        uint32_t c;
        std::memcpy(&c, &registers[kC].rows[m][4 * n], 4);
        for (int k = 0; k < config.bytes_per_row[kA]; ++k) {
          const auto a = static_cast<A>(registers[kA].rows[m][k]);
          const auto b = static_cast<B>(registers[kB].rows[k / 4][4 * n + k % 4]);
          c += static_cast<uint32_t>(a * b);
        }
        std::memcpy(&registers[kC].rows[m][4 * n], &c, 4);
      }
    }
  }

  static float element(int tile, int row, int index) {
    uint16_t x;
    std::memcpy(&x, &registers[tile].rows[row][2 * index], 2);
    return f32_from_bf16(x);
  }
};

// A vector of one number, with the roundings of the levels that have AMX.
struct EmulatedLanes {
  using F = float;
  static constexpr int kLanes = 1;
  static F set1(float x) { return x; }
  static F load(const float* p) { return *p; }
  static void store(float* p, F x) { *p = x; }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  static F load_i32(const int32_t* p, int32_t from_each) {
    return static_cast<float>(*p - from_each);
  }
};

}  // namespace prefix::ops::testing
