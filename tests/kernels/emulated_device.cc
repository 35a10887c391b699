// Linked into tests of other rooms, which then ask for device=cuda (support/tiny_engine.h): it is
// the emulator, unless PREFIX_TEST_REAL_GPU asks for a GPU (tools/gpu_check).
#include <cstdlib>
#include <memory>

#include "kernels/gpu_support.h"

namespace {

using prefix::ops::testing::EmulatedCuda;

[[maybe_unused]] const int asked = setenv("PREFIX_TEST_DEVICE", "cuda", 1);
const std::unique_ptr<EmulatedCuda> emulated =
    std::getenv("PREFIX_TEST_REAL_GPU") ? nullptr : std::make_unique<EmulatedCuda>();

// Otherwise all would pass on the CPU.
TEST(EmulatedDevice, IsAskedFor) { EXPECT_STREQ(std::getenv("PREFIX_TEST_DEVICE"), "cuda"); }

}  // namespace
