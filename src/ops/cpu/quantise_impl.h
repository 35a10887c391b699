// Rows in whole numbers over the Simd of the including translation unit (QuantiseArgs).
//
// Additions, products and conversions of single numbers only, in an order that does not depend on
// the width of a vector: every level has the same bits.
#pragma once

#include <cstdint>

#include "ops/cpu/rows_kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

// A row whose largest magnitude is smaller counts as zero: 127 / it would not be finite.
inline constexpr float kSmallestRow = 0x1p-100f;

template <bool kBf16>
inline Simd::F load_signed(const void* x, const float* signs, int64_t i) {
  Simd::F v;
  if constexpr (kBf16) {
    v = Simd::load_bf16(static_cast<const uint16_t*>(x) + i);
  } else {
    v = Simd::load(static_cast<const float*>(x) + i);
  }
  return Simd::mul(v, Simd::load(signs + i));
}

template <int kStride>
inline Simd::F butterflies(Simd::F x) {
  if constexpr (kStride == 0) {
    return x;
  } else {
    return butterflies<kStride / 2>(Simd::butterfly<kStride>(x));
  }
}

// Strides of whole vectors. Not a loop over strides: g++ does not unroll it, and v stays in memory.
template <int kStride, int kVecs>
inline void between_vectors(Simd::F* v) {
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    if ((i & kStride) != 0) continue;
    const Simd::F a = v[i], b = v[i + kStride];
    v[i] = Simd::add(a, b);
    v[i + kStride] = Simd::sub(a, b);
  }
  if constexpr (kStride > 1) between_vectors<kStride / 2, kVecs>(v);
}

// A block of x, rotated or as it is; the same numbers of the next row are asked for meanwhile.
template <bool kBf16, int kBlock, bool kRotated>
[[gnu::always_inline]] inline void bring_block(const QuantiseArgs& args, int64_t first,
                                               Simd::F (&v)[kBlock / Simd::kLanes]) {
  constexpr int kVecs = kBlock / Simd::kLanes;
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i)
    v[i] = load_signed<kBf16>(args.x, args.signs, first + i * Simd::kLanes);
  constexpr int64_t kElement = kBf16 ? 2 : 4;
  if (args.next != nullptr) {
    PREFIX_UNROLL
    for (int64_t byte = 0; byte < kBlock * kElement; byte += 64)
      __builtin_prefetch(static_cast<const char*>(args.next) + first * kElement + byte);
  }
  if constexpr (!kRotated) return;
  between_vectors<kVecs / 2, kVecs>(v);
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i) v[i] = butterflies<Simd::kLanes / 2>(v[i]);
}

// Rotates a block from x to `work` and returns its largest magnitudes.
template <bool kBf16, int kBlock>
inline Simd::F rotate_block(const QuantiseArgs& args, int64_t first, Simd::F largest) {
  constexpr int kVecs = kBlock / Simd::kLanes;
  Simd::F v[kVecs];
  bring_block<kBf16, kBlock, true>(args, first, v);
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    Simd::store(args.work + first + i * Simd::kLanes, v[i]);
    largest = Simd::max_magnitude(largest, v[i]);
  }
  return largest;
}

template <bool kBf16, int kBlock>
inline Simd::F rotate_blocks(const QuantiseArgs& args) {
  Simd::F largest = Simd::zero();
  for (int64_t k = 0; k < args.k; k += kBlock)
    largest = rotate_block<kBf16, kBlock>(args, k, largest);
  return largest;
}

// Not rotated.
template <bool kBf16>
inline Simd::F bring_row(const QuantiseArgs& args) {
  Simd::F largest = Simd::zero();
  for (int64_t i = 0; i < args.k; i += Simd::kLanes) {
    const Simd::F v = load_signed<kBf16>(args.x, args.signs, i);
    Simd::store(args.work + i, v);
    largest = Simd::max_magnitude(largest, v);
  }
  return largest;
}

// Blocks of any size, number by number.
template <bool kBf16>
inline Simd::F rotate_small_blocks(const QuantiseArgs& args) {
  for (int64_t i = 0; i < args.k; ++i) {
    float x;
    if constexpr (kBf16) {
      const uint32_t bits = uint32_t{static_cast<const uint16_t*>(args.x)[i]} << 16;
      __builtin_memcpy(&x, &bits, sizeof x);
    } else {
      x = static_cast<const float*>(args.x)[i];
    }
    args.work[i] = x * args.signs[i];
  }
  Simd::F largest = Simd::zero();
  for (int64_t stride = args.block / 2; stride >= 1; stride /= 2) {
    for (int64_t i = 0; i < args.k; ++i) {
      if ((i % args.block & stride) != 0) continue;
      const float a = args.work[i], b = args.work[i + stride];
      args.work[i] = a + b;
      args.work[i + stride] = a - b;
    }
  }
  for (int64_t i = 0; i < args.k; ++i)
    largest = Simd::max_magnitude(largest, Simd::set1(args.work[i]));
  return largest;
}

template <bool kBf16>
inline Simd::F rotate_row(const QuantiseArgs& args) {
  switch (args.block) {
    case 128:
      return rotate_blocks<kBf16, 128>(args);
    case 64:
      return rotate_blocks<kBf16, 64>(args);
    case 32:
      return rotate_blocks<kBf16, 32>(args);
    case 1:
      if (args.k % Simd::kLanes == 0) return bring_row<kBf16>(args);
      [[fallthrough]];
    default:
      return rotate_small_blocks<kBf16>(args);
  }
}

// out = round(x factor), zeros from k to k_padded. With kRest x becomes what that rounds away.
// Returns the sum of `out`.
template <bool kRest>
inline int32_t round_numbers(float* x, int64_t k, float factor, int64_t k_padded, int8_t* out) {
  constexpr int64_t kLanes = Simd::kLanes, kFour = 4 * kLanes;
  const Simd::F factors = Simd::set1(factor);
  const auto scaled = [&](int64_t i) { return Simd::mul(Simd::load(x + i), factors); };
  int64_t i = 0;
  for (; i + kFour <= k; i += kFour) {
    const Simd::F four[] = {scaled(i), scaled(i + kLanes), scaled(i + 2 * kLanes),
                            scaled(i + 3 * kLanes)};
    Simd::store_i8(out + i, four[0], four[1], four[2], four[3]);
    PREFIX_UNROLL
    for (int j = 0; kRest && j < 4; ++j)
      Simd::store(x + i + j * kLanes, Simd::sub(four[j], Simd::round(four[j])));
  }
  for (; i < k; i += kLanes) {
    const int64_t count = k - i < kLanes ? k - i : kLanes;
    float last[kLanes];
    int8_t bytes[kLanes];
    const Simd::F one = Simd::mul(load_first(x + i, count), factors), whole = Simd::round(one);
    Simd::store_i8(bytes, whole);
    Simd::store(last, Simd::sub(one, whole));
    for (int64_t j = 0; j < count; ++j) out[i + j] = bytes[j];
    for (int64_t j = 0; kRest && j < count; ++j) x[i + j] = last[j];
  }
  for (int64_t j = k; j < k_padded; ++j) out[j] = 0;
  return Simd::sum_i8(out, k_padded);
}

// What numbers with these largest magnitudes are multiplied by, and what they are in units of then;
// no factor where all of them count as zero, or one is not finite.
struct NumberUnits {
  explicit NumberUnits(Simd::F largest) {
    const uint32_t bits = vec_largest(largest);
    float peak;
    __builtin_memcpy(&peak, &bits, sizeof peak);
    if (bits >= 0x7f800000) {
      scale = __builtin_nanf("");
    } else if (peak >= kSmallestRow) {
      factor = 127.0f / peak;
      scale = peak / 127.0f;
    }
  }
  float factor = 0, scale = 0;
};

// A row of one block, as a head is: it stays in registers.
template <bool kBf16, int kBlock, bool kRotated>
inline QuantisedRow quantise_block(const QuantiseArgs& args) {
  constexpr int kLanes = Simd::kLanes, kVecs = kBlock / kLanes;
  static_assert(kVecs % 4 == 0);
  Simd::F v[kVecs];
  bring_block<kBf16, kBlock, kRotated>(args, 0, v);
  Simd::F largest = Simd::zero();
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i) largest = Simd::max_magnitude(largest, v[i]);
  const NumberUnits units(largest);
  if (units.factor == 0) {
    __builtin_memset(args.out, 0, kBlock);
    return {units.scale, 0, 0};
  }
  const Simd::F factor = Simd::set1(units.factor);
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; ++i) v[i] = Simd::mul(v[i], factor);
  PREFIX_UNROLL
  for (int i = 0; i < kVecs; i += 4)
    Simd::store_i8(args.out + i * kLanes, v[i], v[i + 1], v[i + 2], v[i + 3]);
  return {units.scale, Simd::sum_i8(args.out, kBlock), 0};
}

template <bool kBf16, int kBlock>
inline QuantisedRow quantise_block(const QuantiseArgs& args) {
  return args.block == 1 ? quantise_block<kBf16, kBlock, false>(args)
                         : quantise_block<kBf16, kBlock, true>(args);
}

template <bool kBf16>
inline QuantisedRow quantise_row_of(const QuantiseArgs& args) {
  const bool one_block = args.block == args.k || args.block == 1;
  if (one_block && args.k_padded == args.k && args.rest == nullptr) {
    if (args.k == 128) return quantise_block<kBf16, 128>(args);
    if (args.k == 64) return quantise_block<kBf16, 64>(args);
  }
  const NumberUnits units(rotate_row<kBf16>(args));
  if (units.factor == 0) {
    __builtin_memset(args.out, 0, static_cast<size_t>(args.k_padded));
    if (args.rest != nullptr) __builtin_memset(args.rest, 0, static_cast<size_t>(args.k_padded));
    return {units.scale, 0, 0};
  }
  if (args.rest == nullptr)
    return {units.scale,
            round_numbers<false>(args.work, args.k, units.factor, args.k_padded, args.out), 0};
  const int32_t sum = round_numbers<true>(args.work, args.k, units.factor, args.k_padded, args.out);
  return {units.scale, sum,
          round_numbers<false>(args.work, args.k, kRestUnits, args.k_padded, args.rest)};
}

QuantisedRow quantise_row(const QuantiseArgs& args) {
  return args.bf16 ? quantise_row_of<true>(args) : quantise_row_of<false>(args);
}

// The step of calibrated_rounding.h, for one column after the other.
void round_columns(const RoundColumnsArgs& args) {
  constexpr int kVecs = kPanelColumns / Simd::kLanes;
  const auto within = [](Simd::F x, float limit) {
    return Simd::min(Simd::max(x, Simd::set1(-limit)), Simd::set1(limit));
  };
  for (int64_t k = 0; k < args.columns; ++k) {
    const float* const inputs = args.inputs + k * args.tokens;
    const float* const shares = args.shares + k * args.tokens;
    float* const numbers = args.numbers + k * kPanelColumns;
    Simd::F exact[kVecs], wanted[kVecs];
    PREFIX_UNROLL
    for (int i = 0; i < kVecs; ++i) wanted[i] = exact[i] = Simd::load(numbers + i * Simd::kLanes);
    for (int64_t t = 0; t < args.tokens; ++t) {
      const Simd::F share = Simd::set1(shares[t]);
      PREFIX_UNROLL
      for (int i = 0; i < kVecs; ++i)
        wanted[i] = Simd::sub(
            wanted[i],
            Simd::mul(share, Simd::load(args.errors + t * kPanelColumns + i * Simd::kLanes)));
    }
    PREFIX_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      const Simd::F taken = Simd::round(within(wanted[i], 127));
      Simd::store(numbers + i * Simd::kLanes, taken);
      exact[i] = Simd::sub(taken, exact[i]);
    }
    for (int64_t t = 0; t < args.tokens; ++t) {
      const Simd::F input = Simd::set1(inputs[t]);
      PREFIX_UNROLL
      for (int i = 0; i < kVecs; ++i) {
        float* const error = args.errors + t * kPanelColumns + i * Simd::kLanes;
        Simd::store(error, Simd::add(Simd::load(error), Simd::mul(exact[i], input)));
      }
    }
  }
}

template <bool kBf16>
inline void quantise_each_group(const QuantiseGroupsArgs& args) {
  constexpr int kVecs = kGroupK / Simd::kLanes;
  int8_t* const codes = args.out.codes(args.row);
  float* const scales = args.out.scales(args.row);
  float* const scaled_sums = args.out.scaled_sums(args.row);
  int32_t* const sums = args.out.sums(args.row);
  for (int64_t g = 0; g < args.out.groups(); ++g) {
    Simd::F v[kVecs];
    Simd::F largest = Simd::zero();
    PREFIX_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      const int64_t at = g * kGroupK + i * Simd::kLanes;
      if constexpr (kBf16) {
        v[i] = Simd::load_bf16(static_cast<const uint16_t*>(args.x) + at);
      } else {
        v[i] = Simd::load(static_cast<const float*>(args.x) + at);
      }
      largest = Simd::max_magnitude(largest, v[i]);
    }
    const NumberUnits units(largest);
    if (units.factor == 0) {
      __builtin_memset(codes + g * kGroupK, 0, kGroupK);
      scales[g] = scaled_sums[g] = units.scale;
      sums[2 * g] = sums[2 * g + 1] = 0;
      if (args.rest != nullptr)
        __builtin_memset(args.rest + g * kGroupK, 0, kGroupK * sizeof(float));
      continue;
    }
    const Simd::F factor = Simd::set1(units.factor);
    Simd::F whole[kVecs];
    PREFIX_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      whole[i] = Simd::round(Simd::mul(v[i], factor));
      Simd::store_i8(codes + g * kGroupK + i * Simd::kLanes, whole[i]);
    }
    float half_sums[2];
    PREFIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      Simd::F sum = whole[half * kVecs / 2];
      PREFIX_UNROLL
      for (int i = 1; i < kVecs / 2; ++i) sum = Simd::add(sum, whole[half * kVecs / 2 + i]);
      half_sums[half] = vec_sum(sum);  // whole numbers: exact in any order
      sums[2 * g + half] = static_cast<int32_t>(half_sums[half]);
    }
    scales[g] = units.scale;
    scaled_sums[g] = scales[g] * (half_sums[0] + half_sums[1]);
    if (args.rest == nullptr) continue;
    PREFIX_UNROLL
    for (int i = 0; i < kVecs; ++i)
      Simd::store(args.rest + g * kGroupK + i * Simd::kLanes,
                  Simd::sub(v[i], Simd::mul(whole[i], Simd::set1(scales[g]))));
  }
}

void quantise_groups(const QuantiseGroupsArgs& args) {
  args.bf16 ? quantise_each_group<true>(args) : quantise_each_group<false>(args);
}

}  // namespace
}  // namespace prefix::ops
