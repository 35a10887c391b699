#include "ops/cpu/isa.h"

#include <array>
#include <cstdlib>
#include <string>

#include "base/quote.h"
#include "base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace prefix::ops {
namespace {

constexpr std::array<std::string_view, kIsaCount> kNames = {"scalar",      "avx2", "avx512",
                                                            "avx512_bf16", "amx",  "neon"};
// Best first, as cpu_isa_levels() lists them.
constexpr std::array<Isa, kIsaCount> kBestFirst = {Isa::kAmx,  Isa::kAvx512Bf16, Isa::kAvx512,
                                                   Isa::kAvx2, Isa::kNeon,       Isa::kScalar};

// Why this build has no such level: it is for another architecture. "" if it has.
std::string_view missing_architecture(Isa isa) {
  if (isa == Isa::kScalar) return "";
#if defined(__aarch64__)
  if (isa == Isa::kNeon) return "";
#endif
  if (isa == Isa::kNeon) return "not an aarch64 build";
#if defined(__x86_64__)
  return "";
#else
  return "not an x86-64 build";
#endif
}

#if defined(__x86_64__)

struct CpuId {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuId cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuId id;
  if (__get_cpuid_count(leaf, subleaf, &id.eax, &id.ebx, &id.ecx, &id.edx) == 0) return {};
  return id;
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1) != 0; }

// The register state that the kernel saves on a context switch (XCR0).
uint64_t enabled_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux hands out the 8 KB of tile registers only on request, once per process. The request fails
// under old kernels, under seccomp, and when some thread has an alternate signal stack too small
// for the larger frame (hosts in Go, Java or Rust): then AMX is treated as absent.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif

}  // namespace

std::string_view isa_name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  const CpuId vendor = cpuid(0, 0);
  features.amd = vendor.ebx == signature_AMD_ebx && vendor.ecx == signature_AMD_ecx;
  features.intel = vendor.ebx == signature_INTEL_ebx && vendor.ecx == signature_INTEL_ecx;
  const CpuId one = cpuid(1, 0);
  if (!bit(one.ecx, 27)) return features;  // OSXSAVE: without it xgetbv faults
  const uint64_t state = enabled_state();
  const bool ymm = (state & 0x06) == 0x06;
  const bool zmm = (state & 0xe6) == 0xe6;
  const bool tiles = (state & 0x60000) == 0x60000;
  const CpuId seven = cpuid(7, 0);
  const CpuId seven_one = cpuid(7, 1);
  features.avx2 = ymm && bit(seven.ebx, 5) && bit(one.ecx, 12) && bit(one.ecx, 29);
  features.avx_vnni = features.avx2 && bit(seven_one.eax, 4);
  features.avx512 = zmm && features.avx2 && bit(seven.ebx, 16) && bit(seven.ebx, 17) &&
                    bit(seven.ebx, 30) && bit(seven.ebx, 31);
  features.avx512_vnni = features.avx512 && bit(seven.ecx, 11);
  features.avx512_bf16 = features.avx512 && bit(seven_one.eax, 5);
  features.amx_bf16 = tiles && features.avx512_bf16 && bit(seven.edx, 22) && bit(seven.edx, 24);
  features.amx_int8 = features.amx_bf16 && features.avx512_vnni && bit(seven.edx, 25);
  features.amx_permitted = features.amx_bf16 && request_amx();
#elif defined(__aarch64__)
  // What -march=armv8.2-a+dotprod lets the compiler use.
  constexpr unsigned long kDot = HWCAP_ASIMDDP | HWCAP_ASIMDRDM | HWCAP_ATOMICS | HWCAP_CRC32;
  features.neon = true;
  features.neon_dot = (getauxval(AT_HWCAP) & kDot) == kDot;
#endif
  return features;
}

std::string_view isa_obstacle(Isa isa, const CpuFeatures& features) {
  const std::string_view missing = missing_architecture(isa);
  if (!missing.empty()) return missing;
  switch (isa) {
    case Isa::kScalar:
      return "";
    case Isa::kAvx2:
      return features.avx2 ? "" : "the processor or the kernel lacks AVX2, FMA or F16C";
    case Isa::kAvx512:
      return features.avx512 ? "" : "the processor or the kernel lacks AVX-512 F/BW/DQ/VL";
    case Isa::kAvx512Bf16:
      return features.avx512_bf16 ? "" : "the processor lacks AVX512_BF16";
    case Isa::kAmx:
      if (!features.amx_bf16) return "the processor or the kernel lacks AMX-TILE or AMX-BF16";
      return features.amx_permitted ? "" : "the kernel refused this process the AMX tile state";
    case Isa::kNeon:
      return features.neon ? "" : "the processor lacks NEON";
  }
  return "unknown level";
}

Isa fastest_isa(const CpuFeatures& features) {
  for (const Isa isa : kBestFirst) {
    if (!isa_obstacle(isa, features).empty()) continue;
    // Intel executes vdpbf16ps at half the rate of f32 FMA (measured on Sapphire Rapids).
    if (isa == Isa::kAvx512Bf16 && features.intel) continue;
    return isa;
  }
  return Isa::kScalar;
}

namespace {

const CpuFeatures& this_cpu() {
  static const CpuFeatures features = detect_cpu_features();
  return features;
}

Isa parse_isa(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (kNames[static_cast<size_t>(i)] == name) return static_cast<Isa>(i);
  }
  std::string known = "auto";
  for (const Isa isa : kBestFirst)
    if (missing_architecture(isa).empty()) known.append(", ").append(isa_name(isa));
  fail(Code::kInvalidArgument, "unknown CPU level ", quote(name), "; known: ", known);
}

}  // namespace

Isa choose_isa(std::string_view requested) {
  if (requested == "auto" || requested.empty()) {
    const char* forced = std::getenv("LIBPREFIX_ISA");
    requested = forced == nullptr || *forced == '\0' ? std::string_view("auto") : forced;
  }
  if (requested == "auto") return fastest_isa(this_cpu());
  const Isa isa = parse_isa(requested);
  const std::string_view obstacle = isa_obstacle(isa, this_cpu());
  if (!obstacle.empty()) {
    fail(Code::kUnsupportedDevice, "CPU level ", requested, " cannot run here: ", obstacle);
  }
  return isa;
}

std::span<const IsaLevel> cpu_isa_levels() {
  static const std::array<IsaLevel, kIsaCount> levels = [] {
    std::array<IsaLevel, kIsaCount> list{};
    const Isa fastest = fastest_isa(this_cpu());
    for (size_t i = 0; i < list.size(); ++i) {
      const Isa isa = kBestFirst[i];
      const std::string_view obstacle = isa_obstacle(isa, this_cpu());
      list[i] = {isa_name(isa), obstacle.empty(), isa == fastest, obstacle};
    }
    return list;
  }();
  return levels;
}

}  // namespace prefix::ops
