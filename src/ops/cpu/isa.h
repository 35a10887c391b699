// Which instruction sets the CPU kernels may use, and which of them is the fastest here.
//
// A *level* is one translation unit of kernels, compiled with its own flags. Having an instruction
// is not the same as being fast with it: vdpbf16ps runs at twice the f32 rate on Zen 4 and 5 and at
// half of it on Sapphire Rapids, so the choice looks at the vendor too.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/op.h"

namespace prefix::ops {

enum class Isa : int32_t { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx, kNeon };
inline constexpr int kIsaCount = 6;

std::string_view isa_name(Isa isa);

// What the processor and the kernel offer; the inputs of the decision, so that it can be tested.
struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, state enabled by the kernel
  bool avx_vnni = false;     // besides avx2; no level of its own
  bool avx512 = false;       // F, BW, DQ, VL, state enabled by the kernel
  bool avx512_vnni = false;  // besides avx512; no level of its own
  bool avx512_bf16 = false;
  bool amx_bf16 = false;       // AMX-TILE and AMX-BF16, state enabled by the kernel
  bool amx_int8 = false;       // besides amx_bf16 and avx512_vnni
  bool amx_permitted = false;  // and the process may use it (arch_prctl)
  bool amd = false;
  bool intel = false;
  bool neon = false;      // every aarch64
  bool neon_dot = false;  // besides neon: sdot and udot, and what Armv8.2 has; no level of its own
};

CpuFeatures detect_cpu_features();

// "" if `isa` can run with these features, else why not.
std::string_view isa_obstacle(Isa isa, const CpuFeatures& features);
// The level that is fastest with these features.
Isa fastest_isa(const CpuFeatures& features);

// Resolves a CpuOptions::isa: a name, or "auto" for $LIBPREFIX_ISA if set and else the fastest.
// Throws kInvalidArgument for an unknown name and kUnsupportedDevice for one that cannot run here.
Isa choose_isa(std::string_view requested);

}  // namespace prefix::ops
