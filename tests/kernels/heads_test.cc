// What heads read of rows of logits on a GPU, as tests/ops/head_operations.cc asks all devices.
#include "kernels/gpu_support.h"

namespace prefix::ops::testing {

INSTANTIATE_TEST_SUITE_P(Devices, RowOps, ::testing::ValuesIn(tested(kBf16Backends)), device_name);

}  // namespace prefix::ops::testing
