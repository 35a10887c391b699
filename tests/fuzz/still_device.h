// A device that has memory and computes nothing: what a page pool needs.
#pragma once

#include <cstdlib>

#include "ops/step.h"
#include "target.h"

namespace prefix::fuzz {

class StillSizes final : public ops::DeviceSizes {
 public:
  ops::ComputeType compute_type() const override { return ops::ComputeType::kBf16; }
  size_t projection_bytes() const override { return 2; }
  int64_t act_ld(int64_t columns) const override { return columns; }
  int64_t f32_ld(int64_t columns) const override { return columns; }
  bool host_memory() const override { return true; }
  int64_t usable_bytes() const override { return 0; }
  size_t own_bytes() const override { return 0; }
  size_t workspace_bytes(const ops::ReserveShape&) const override { return 0; }
};

class StillDevice : public ops::Device {
 public:
  std::string_view name() const override { return "still"; }
  std::string_view isa() const override { return "none"; }
  ops::NumericTypes types() const override { return {}; }
  const ops::DeviceSizes& sizes() const override { return sizes_; }
  std::byte* allocate(size_t bytes) override {
    auto* const data = static_cast<std::byte*>(std::calloc(1, bytes));
    KEEP(data);
    return data;
  }
  void release(std::byte* data, size_t) override { std::free(data); }
  int64_t free_bytes() const override { return 0; }
  std::unique_ptr<ops::Step> begin_step(const ops::StepArrays&) override { std::abort(); }

  ops::PackedWeights pack_sources(ops::WeightFormat, int64_t, int64_t,
                                  std::span<const ops::WeightSource* const>,
                                  const ops::CalibrationRows*) override {
    std::abort();
  }
  void rms_norm(const float*, int64_t, const float*, float, int64_t, int64_t,
                ops::ActivationBuffer) override {
    std::abort();
  }
  void rms_norm_f32(const float*, int64_t, const float*, float, int64_t, int64_t, float*, int64_t,
                    bool) override {
    std::abort();
  }
  void linear(const ops::PackedWeights&, const float*, ops::ActivationBuffer, int64_t, float*,
              int64_t, bool) override {
    std::abort();
  }
  void linear_gated(const ops::PackedWeights&, int64_t, const float*, const float*,
                    ops::ActivationFn, ops::ActivationBuffer, int64_t,
                    ops::ActivationBuffer) override {
    std::abort();
  }
  void gated_norm(const GatedNormArgs&, int64_t, ops::ActivationBuffer) override { std::abort(); }
  void multiply_sigmoid(const float*, int64_t, int64_t, int64_t, ops::ActivationBuffer) override {
    std::abort();
  }
  void multiply(const float*, int64_t, int64_t, int64_t, float*, int64_t) override { std::abort(); }
  void squared_relu(const float*, int64_t, int64_t, int64_t, ops::ActivationBuffer) override {
    std::abort();
  }
  void route(const RouteArgs&, int64_t, ops::ExpertSlots&) override { std::abort(); }
  void experts(const ExpertsArgs&, const ops::ExpertSlots&) override { std::abort(); }
  void soft_cap(float*, int64_t, int64_t, int64_t, float) override { std::abort(); }
  void convert(const float*, int64_t, int64_t, int64_t, ops::ActivationBuffer) override {
    std::abort();
  }
  void parallel(int64_t, const std::function<void(int64_t)>&) override { std::abort(); }

 private:
  StillSizes sizes_;
};

}  // namespace prefix::fuzz
