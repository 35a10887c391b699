// Recurrent layers: the convolution and the scan over the paths of a step.
#include "base/status.h"
#include "ops/cpu/step.h"
#include "ops/op_cpu.h"

namespace prefix::ops {

void CpuStep::conv(const ConvArgs&) { PREFIX_CHECK(false); }
void CpuStep::scan(const Mamba2Args&) { PREFIX_CHECK(false); }
void CpuStep::scan(const GatedDeltaArgs&) { PREFIX_CHECK(false); }

void CpuDevice::gated_norm(const GatedNormArgs&, int64_t, ActivationBuffer) { PREFIX_CHECK(false); }

void CpuDevice::multiply_sigmoid(const float*, int64_t, int64_t, int64_t, ActivationBuffer) {
  PREFIX_CHECK(false);
}

}  // namespace prefix::ops
