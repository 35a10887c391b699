// The choice of a CPU level: by what is fast, never by what merely exists.
#include "ops/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/status.h"

namespace prefix::ops {
namespace {

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
