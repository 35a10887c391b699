// How weights lie in memory that keep the codes and scales of a file's blocks (option
// weights=packed): nothing is rounded, 32 rows of W are laid side by side, a lane of a vector each.
//
//   panel of 32 rows   unit | unit | ...            a unit is a block of each row: 32 k, or 256
//   unit               low bits | high bits | scales | minima | d | m
//
//   low bits   of each group of 32 k. A byte is a code:  [8 quads of k][32 rows][4]
//              a nibble is:  [4 pairs of quads][32 rows][4], the quad that comes first in the low
//              ones
//   high bits  of each group, one or two of a code above its nibble: [1 or 2][32 rows][4], where a
//              byte has those of 8 or 4 quads, the first in its lowest bits
//   scales     where d only scales them: [groups, or halves of groups][32 rows], a byte each
//   minima     likewise: [groups][32 rows]
//   d, m       [32 rows], f16; d of MXFP4 is a bf16, which has all powers of two of its scales. m is
//              what is added, so that of Q4_K and Q5_K has its sign turned.
//
//   w = d [* scale] * (code - offset) [+ m [* minimum]]
//
// Kernels of one instruction set include it: plain types only, all known when it is compiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/panel.h"

namespace prefix::ops {

// The types of blocks that kernels multiply as they are.
enum class BlockType : uint8_t {
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIQ4_NL,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMXFP4
};
inline constexpr int kBlockTypes = 10;

// Numbers that nibbles are the places of.
enum class CodeTable : uint8_t { kNone, kIQ4, kE2M1 };

inline constexpr int kGroupK = 32;  // numbers of a row that one scale of activations is for
inline constexpr int kGroupQuads = kGroupK / 4;
inline constexpr int kMaxUnitGroups = 8;
// Of all units: where a product may begin.
inline constexpr int64_t kMaxUnitK = int64_t{kMaxUnitGroups} * kGroupK;

struct BlockLayout {
  int groups = 1;       // of a unit
  int low_bits = 4;     // 4 or 8
  int high_bits = 0;    // 0, 1 or 2
  int offset = 0;       // of all codes; 128 where a byte has a sign
  int halves = 1;       // scales of a group
  bool nested = false;  // scales and minima are whole numbers times d and m
  bool minima = false;
  CodeTable table = CodeTable::kNone;
  bool bf16 = false;  // d

  // Of a code, from 0 on.
  constexpr int code_bits() const {
    return low_bits == 8 || table == CodeTable::kIQ4 ? 8
           : table == CodeTable::kE2M1               ? 5
                                                     : 4 + high_bits;
  }
  constexpr int64_t k() const { return int64_t{groups} * kGroupK; }
  constexpr int64_t low_bytes() const { return kGroupK * kPanelColumns * low_bits / 8; }
  constexpr int64_t high_bytes() const { return kGroupK * kPanelColumns * high_bits / 8; }
  constexpr int64_t high_at() const { return groups * low_bytes(); }
  constexpr int64_t scales_at() const { return high_at() + groups * high_bytes(); }
  constexpr int64_t minima_at() const {
    return scales_at() + (nested ? groups * halves * kPanelColumns : 0);
  }
  constexpr int64_t d_at() const {
    return minima_at() + (nested && minima ? groups * kPanelColumns : 0);
  }
  constexpr int64_t m_at() const { return d_at() + 2 * kPanelColumns; }
  constexpr int64_t bytes() const { return m_at() + (minima ? 2 * kPanelColumns : 0); }
};

// By BlockType.
inline constexpr BlockLayout kBlockLayouts[kBlockTypes] = {
    {.low_bits = 8, .offset = 128},
    {.offset = 8},
    {.minima = true},
    {.high_bits = 1, .offset = 16},
    {.high_bits = 1, .minima = true},
    {.offset = 128, .table = CodeTable::kIQ4},
    {.groups = 8, .nested = true, .minima = true},
    {.groups = 8, .high_bits = 1, .nested = true, .minima = true},
    {.groups = 8, .high_bits = 2, .offset = 32, .halves = 2, .nested = true},
    {.offset = 12, .table = CodeTable::kE2M1, .bf16 = true},
};
constexpr const BlockLayout& layout_of(BlockType type) {
  return kBlockLayouts[static_cast<size_t>(type)];
}

// The numbers of IQ4_NL, each + 128.
inline constexpr uint8_t kIQ4Numbers[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                            129, 141, 153, 166, 181, 197, 217, 241};
// Twice those of MXFP4, each + 12.
inline constexpr uint8_t kE2M1Numbers[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                             12, 11, 10, 9,  8,  6,  4,  0};
constexpr const uint8_t* numbers_of(CodeTable table) {
  return table == CodeTable::kE2M1 ? kE2M1Numbers : kIQ4Numbers;
}

}  // namespace prefix::ops
