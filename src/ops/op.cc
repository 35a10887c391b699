// The few parts of the operation contract that are the same on every device.
#include "ops/op.h"

#include <cstring>
#include <new>

#include "base/status.h"
#include "ops/step.h"

namespace prefix::ops {

void Device::upload(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void Device::download(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void Device::download_all(std::span<const Download> pieces) {
  for (const Download& d : pieces) download(d.host, d.device, d.bytes);
}

std::byte* Device::allocate_host(size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
}

void Device::release_host(std::byte* data, size_t) {
  ::operator delete(data, std::align_val_t{64});
}

void Device::over_blocks(int64_t, const std::function<void(const RowBlock&)>&) {
  fail(Code::kInternal, "device \"", name(), "\" has no blocks of rows");
}

void Device::linear_adapted(const PackedWeights&, const float*, const LowRankArgs&,
                            ActivationBuffer, int64_t, float*, int64_t, bool) {
  fail(Code::kInternal, "device \"", name(), "\" has no adapters");
}

void Device::linear_gated_adapted(const PackedWeights&, int64_t, const float*, const float*,
                                  ActivationFn, const LowRankArgs&, ActivationBuffer, int64_t,
                                  ActivationBuffer) {
  fail(Code::kInternal, "device \"", name(), "\" has no adapters");
}

void Device::linear_in_slices(const PackedWeights&, const float*, const LowRankArgs&,
                              ActivationBuffer, int64_t, float*, int64_t, int64_t,
                              const std::function<void(int64_t, int64_t)>&) {
  fail(Code::kInternal, "device \"", name(), "\" has no blocks of rows");
}

void Step::qkv_rows(const QkvArgs&, int64_t, int64_t) {
  fail(Code::kInternal, "the device of this step has no blocks of rows");
}

void Step::keep_rows(const KeptRows&, std::span<const RowBuffer>) {
  fail(Code::kInternal, "the device of this step keeps all rows");
}

}  // namespace prefix::ops
