// Linked into tests of other rooms that are compiled for device=cuda: it is the emulator, unless
// PREFIX_TEST_REAL_GPU asks for a GPU (tools/gpu_check).
#include <cstdlib>
#include <memory>

#include "kernels/gpu_support.h"

namespace {

using prefix::ops::testing::EmulatedCuda;

const std::unique_ptr<EmulatedCuda> emulated =
    std::getenv("PREFIX_TEST_REAL_GPU") ? nullptr : std::make_unique<EmulatedCuda>();

}  // namespace
