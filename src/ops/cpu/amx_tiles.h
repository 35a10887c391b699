// The AMX tile instructions, wrapped so that the compiler knows which memory they touch.
//
// g++ 12's own intrinsics do not: _tile_loadconfig claims to read 8 bytes of its 64, _tile_loadd to
// read none, so stores to the configuration or to a buffer may be dropped or come late and the
// product is silently wrong. No other file may use tile instructions; tests/ops/amx_test.cc runs
// the two cases wherever there is AMX.
#pragma once

#include <cstdint>

#include "ops/cpu/amx_config.h"

namespace prefix::ops {
namespace {

struct HardwareTiles {
  static void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  static void release() { asm volatile("tilerelease" : : : "memory"); }

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // stride: bytes from row to row.
  template <int kTile>
  static void load(const void* base, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
  }
  // The same, past L1 as far as the processor can:
  // for what is not read again before L1 has lost it.
  template <int kTile>
  static void load_past(const void* base, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(base), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(void* base, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(base), "r"(stride), "i"(kTile)
                 : "memory");
  }
  // C += A B over pairs of bf16; A: rows x 16 pairs, B: 16 pairs x 16 columns.
  template <int kC, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // C += A B over quads of bytes, those of A signed, those of B unsigned.
  template <int kC, int kA, int kB>
  static void multiply_int8() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  // The same, those of A unsigned, those of B signed.
  template <int kC, int kA, int kB>
  static void multiply_uint8() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace prefix::ops
