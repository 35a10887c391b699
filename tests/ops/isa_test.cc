// The choice of a CPU level: by what is fast, never by what merely exists.
#include "ops/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/status.h"
#include "ops/cpu/kernel_tables.h"

namespace prefix::ops {
namespace {

#if defined(__x86_64__)
CpuFeatures all_features() {
  CpuFeatures f;
  f.avx2 = f.avx512 = f.avx512_bf16 = f.amx_bf16 = f.amx_permitted = true;
  return f;
}

TEST(Isa, PrefersAmx) {
  CpuFeatures f = all_features();
  f.intel = true;
  EXPECT_EQ(fastest_isa(f), Isa::kAmx);
}

TEST(Isa, IntelWithoutAmxMultipliesInF32) {
  CpuFeatures f = all_features();
  f.intel = true;
  f.amx_permitted = false;
  EXPECT_EQ(fastest_isa(f), Isa::kAvx512);
  EXPECT_NE(isa_obstacle(Isa::kAmx, f).find("refused"), std::string_view::npos);
}

TEST(Isa, AmdMultipliesInBf16) {
  CpuFeatures f = all_features();
  f.amd = true;
  f.amx_bf16 = f.amx_permitted = false;
  EXPECT_EQ(fastest_isa(f), Isa::kAvx512Bf16);
  f.avx512_bf16 = false;
  EXPECT_EQ(fastest_isa(f), Isa::kAvx512);
  f.avx512 = false;
  EXPECT_EQ(fastest_isa(f), Isa::kAvx2);
  f.avx2 = false;
  EXPECT_EQ(fastest_isa(f), Isa::kScalar);
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
// A level of another architecture says so, whatever the features; and no message offers it.
TEST(Isa, LevelsOfOtherArchitecturesAreRefusedByName) {
#if defined(__x86_64__)
  const Isa foreign = Isa::kNeon;
  const std::string why = "not an aarch64 build",
                    known = "known: auto, amx, avx512_bf16, avx512, avx2, scalar";
#elif defined(__aarch64__)
  const Isa foreign = Isa::kAvx2;
  const std::string why = "not an x86-64 build", known = "known: auto, neon, scalar";
#endif
  CpuFeatures f;
  f.avx2 = f.neon = true;
  EXPECT_EQ(isa_obstacle(foreign, f), why);
  EXPECT_EQ(isa_obstacle(Isa::kScalar, f), "");
  const auto message = [](std::string_view requested) -> std::string {
    try {
      choose_isa(requested);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(isa_name(foreign)).find(why), std::string::npos) << message(isa_name(foreign));
  EXPECT_NE(message("sse9").find(known), std::string::npos) << message("sse9");
}
#endif

#if defined(__aarch64__)
TEST(Isa, Aarch64HasNeonWithOrWithoutDotProducts) {
  CpuFeatures f;
  EXPECT_EQ(fastest_isa(f), Isa::kScalar);
  f.neon = true;
  EXPECT_EQ(fastest_isa(f), Isa::kNeon);
  const auto products = [](const KernelTables& tables) {
    return tables[static_cast<size_t>(Isa::kNeon)].gemm.tile_int8;
  };
  const TileFn plain = products(kernel_tables(f));
  EXPECT_EQ(products(same_bits_tables(f)), plain);
  EXPECT_NE(products(kernel_tables(CpuFeatures{})), plain);
  EXPECT_TRUE(detect_cpu_features().neon);
  if (detect_cpu_features().neon_dot) {
    f.neon_dot = true;
    EXPECT_NE(products(kernel_tables(f)), plain);
  }
}
#endif

// To fill a table takes the instructions of its level,
// so that must not even be tried where they do not run.
TEST(Isa, OnlyTablesOfLevelsThatRunAreFilled) {
  const auto same = [](const KernelTable& a, const KernelTable& b) {
    return a.gemm.tile_f32 == b.gemm.tile_f32 && a.attention.merge == b.attention.merge;
  };
  CpuFeatures f;
  for (const bool avx2 : {false, true}) {
    f.avx2 = avx2;
    if (avx2 && !detect_cpu_features().avx2) break;
    for (const auto tables_of : {kernel_tables, same_bits_tables}) {
      const KernelTables tables = tables_of(f);
      EXPECT_NE(tables[0].gemm.tile_f32, nullptr);
      EXPECT_EQ(same(tables[0], tables[1]), !avx2);
      for (size_t i = 2; i < tables.size(); ++i) EXPECT_TRUE(same(tables[i], tables[1])) << i;
    }
  }
}

Code code_of(const std::string& requested) {
  try {
    choose_isa(requested);
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

TEST(Isa, UnknownNameIsRefused) { EXPECT_EQ(code_of("sse9"), Code::kInvalidArgument); }

TEST(Isa, EveryListedLevelCanBeChosenOrSaysWhyNot) {
  int chosen = 0;
  for (const IsaLevel& level : cpu_isa_levels()) {
    EXPECT_EQ(level.available, level.reason.empty()) << level.name;
    EXPECT_EQ(code_of(std::string(level.name)),
              level.available ? Code::kOk : Code::kUnsupportedDevice);
    chosen += level.chosen ? 1 : 0;
    if (level.chosen) {
      EXPECT_TRUE(level.available);
    }
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(cpu_isa_levels().size(), static_cast<size_t>(kIsaCount));
}

TEST(Isa, EnvironmentDecidesForAutoOnly) {
  setenv("LIBPREFIX_ISA", "scalar", 1);
  EXPECT_EQ(choose_isa("auto"), Isa::kScalar);
  setenv("LIBPREFIX_ISA", "nonsense", 1);
  EXPECT_EQ(code_of("auto"), Code::kInvalidArgument);
  EXPECT_EQ(choose_isa("scalar"), Isa::kScalar);
  unsetenv("LIBPREFIX_ISA");
}

}  // namespace
}  // namespace prefix::ops
