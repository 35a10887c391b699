// Segment attention of the GPU backend, emulated, against float64.
#include <gtest/gtest.h>

#include "kernels/gpu_support.h"
#include "ops/attention_reference.h"

namespace prefix::ops::testing {
namespace {

TEST(GpuAttention, Placeholder) {}

}  // namespace
}  // namespace prefix::ops::testing
