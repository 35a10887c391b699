// Linked into tests of other rooms that are compiled for device=cuda: it is the emulator.
#include "kernels/gpu_support.h"

namespace {

const prefix::ops::testing::EmulatedCuda emulated;

}  // namespace
