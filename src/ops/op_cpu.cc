// The CPU device itself: its threads, memory and matrix products. Operations on rows, pages, keys
// and logits are in cpu/.
#include "ops/op_cpu.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/resources.h"
#include "base/status.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/memory.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/step.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

// Of each thread, so that a slow one can leave some to the others; and the rows of one, or
// operations follow each other. Where longer ones are better (GemmKernels::layer_rows) these still
// do for few rows: what such steps need besides stays small.
constexpr int64_t kLeastBlocks = 2, kLeastBlockRows = 48;

const KernelTable& table_of(Isa isa, const NumericTypes& types) {
  return same_bits(types) ? same_bits_table(isa) : kernel_table(isa);
}

}  // namespace

CpuSizes::CpuSizes(const NumericTypes& types, const KernelTable& kernels, int32_t workers)
    : compute_type_(compute_type_of(types, kernels)),
      types_(types),
      kernels_(kernels),
      layer_rows_(kernels.gemm.layer_rows),
      block_step_(std::max(kernels.gemm.row_step, kPrefetchRows)),
      workers_(workers) {}

CpuDevice::CpuDevice(const CpuOptions& options)
    : CpuDevice(options, table_of(choose_isa(options.isa), options.types)) {}

CpuDevice::CpuDevice(const CpuOptions& options, const KernelTable& kernels)
    : isa_(choose_isa(options.isa)),
      threads_(options.threads ? options.threads : std::make_shared<Threads>(1)),
      sizes_(options.types, kernels, threads_->count()) {
  scratch_ = std::make_unique<Scratch[]>(static_cast<size_t>(threads_->count()));
  wide_ = std::make_unique<Scratch[]>(static_cast<size_t>(threads_->count()));
  context_.threads = threads_.get();
  context_.scratch = scratch_.get();
  context_.wide = wide_.get();
  context_.partials = &partials_;
  context_.kernels = &kernels;
  context_.types = options.types;
  context_.observer = options.observer;
  if (threads_->count() == 1) return;
  CpuOptions alone = options;
  alone.threads = nullptr;
  for (int i = 0; i < threads_->count(); ++i)
    worker_devices_.push_back(std::make_unique<CpuDevice>(alone, kernels));
}

int64_t CpuSizes::act_ld(int64_t columns) const {
  const auto size = static_cast<int64_t>(act_bytes());
  return spread_row(round_up(columns, 32) * size) / size;
}

int64_t CpuSizes::f32_ld(int64_t columns) const { return round_up(columns, 32) + 16; }

int64_t CpuSizes::block_rows(int64_t rows) const {
  if (rows <= max_rows_without_blocks(rows)) return 0;
  const int64_t blocks = std::max(kLeastBlocks, rows / (layer_rows_ * workers_)) * workers_;
  return round_up(ceil_div(rows, blocks), block_step_);
}

int64_t CpuSizes::max_rows_without_blocks(int64_t rows) const {
  return std::min(rows, kLeastBlocks * kLeastBlockRows * workers_ - 1);
}

int64_t CpuSizes::longest_block(int64_t rows) const {
  return rows == max_rows_without_blocks(rows)
             ? 0
             : round_up(layer_rows_ * (kLeastBlocks + 1) / kLeastBlocks, block_step_);
}

int64_t CpuSizes::usable_bytes() const { return resources().available_bytes; }

std::byte* CpuDevice::allocate(size_t bytes) { return map_memory(bytes); }

int64_t CpuDevice::free_bytes() const { return resources().available_bytes; }

size_t CpuDevice::workspace_now() const {
  size_t bytes = partials_.bytes();
  for (int i = 0; i < threads_->count(); ++i)
    bytes += context_.scratch[i].bytes() + context_.wide[i].bytes();
  for (const std::unique_ptr<CpuDevice>& device : worker_devices_) bytes += device->workspace_now();
  return bytes;
}

void CpuDevice::release(std::byte* data, size_t bytes) { unmap_memory(data, bytes); }

PackedWeights CpuDevice::pack_sources(WeightFormat format, int64_t n, int64_t k,
                                      std::span<const WeightSource* const> sources,
                                      const CalibrationRows* calibration) {
  PREFIX_CHECK(calibration == nullptr ||
               calibration->numbers.size() == calibration->scales.size() * static_cast<size_t>(k));
  PackedWeights shape = format == WeightFormat::kBlocks ? PackedWeights::of_blocks(sources, n, k)
                        : sources.size() == 1           ? PackedWeights::of_shape(format, n, k)
                                              : PackedWeights::of_gated_shape(format, n, k);
  PREFIX_CHECK(format != WeightFormat::kBlocks || shape.blocks);
  std::byte* const data = allocate(shape.bytes());
  try {
    shape.data = data;
    pack_panels(*threads_, context_.kernels->rows, shape, sources, n, calibration, data);
  } catch (...) {
    release(data, shape.bytes());
    throw;
  }
  return shape;
}

void CpuDevice::linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows,
                       float* y, int64_t ld, bool add) {
  linear_adapted(w, bias, {}, x, rows, y, ld, add);
}

void CpuDevice::linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                             const float* bias_up, ActivationFn fn, ActivationBuffer x,
                             int64_t rows, ActivationBuffer out) {
  linear_gated_adapted(w, n, bias_gate, bias_up, fn, {}, x, rows, out);
}

// adapted.inner = x A^T, of each range its own A; all of them on all threads together.
void CpuDevice::multiply_thin(const LowRankArgs& adapted, ActivationBuffer x) {
  if (adapted.rows.empty()) return;
  std::vector<GemmProduct> products;
  products.reserve(adapted.rows.size());
  for (const LowRankRows& range : adapted.rows) {
    const PackedWeights& a = range.matrices->a;
    GemmOutput output;
    output.y = adapted.sums + range.begin * adapted.ld_sums;
    output.ldy = adapted.ld_sums;
    output.columns = a.n;
    products.push_back(
        {&a, from_row(x, range.begin, act_bytes()), range.end - range.begin, output});
  }
  gemm(context_, products);
  for (const LowRankRows& range : adapted.rows)
    convert(adapted.sums + range.begin * adapted.ld_sums, adapted.ld_sums, range.end - range.begin,
            range.matrices->rank(), from_row(adapted.inner, range.begin, act_bytes()));
}

namespace {

GemmOutput adapted_output(const PackedWeights& w, const float* bias,
                          const Device::LowRankArgs& adapted, float* y, int64_t ld) {
  GemmOutput output;
  output.y = y;
  output.ldy = ld;
  output.bias = bias;
  output.columns = w.n;
  output.thin = adapted.rows;
  output.thin_x = adapted.inner;
  return output;
}

}  // namespace

void CpuDevice::linear_adapted(const PackedWeights& w, const float* bias,
                               const LowRankArgs& adapted, ActivationBuffer x, int64_t rows,
                               float* y, int64_t ld, bool add) {
  multiply_thin(adapted, x);
  GemmOutput output = adapted_output(w, bias, adapted, y, ld);
  output.add = add;
  gemm(context_, w, x, rows, output);
}

void CpuDevice::linear_in_slices(const PackedWeights& w, const float* bias,
                                 const LowRankArgs& adapted, ActivationBuffer x, int64_t rows,
                                 float* y, int64_t ld, int64_t slice,
                                 const std::function<void(int64_t, int64_t)>& each) {
  multiply_thin(adapted, x);
  gemm_in_slices(context_, w, x, rows, adapted_output(w, bias, adapted, y, ld), slice, each);
}

void CpuDevice::linear_gated_adapted(const PackedWeights& w, int64_t n, const float* bias_gate,
                                     const float* bias_up, ActivationFn fn,
                                     const LowRankArgs& adapted, ActivationBuffer x, int64_t rows,
                                     ActivationBuffer out) {
  PREFIX_CHECK(w.panels() == 2 * panels_of(n));
  multiply_thin(adapted, x);
  GemmOutput output;
  output.gated_out = out.data;
  output.ldg = out.ld;
  output.bias_gate = bias_gate;
  output.bias_up = bias_up;
  output.fn = fn;
  output.columns = n;
  output.thin = adapted.rows;
  output.thin_x = adapted.inner;
  gemm(context_, w, x, rows, output);
}

void CpuDevice::over_blocks(int64_t rows, const std::function<void(const RowBlock&)>& task) {
  const int64_t each = sizes_.block_rows(rows);
  PREFIX_CHECK(each > 0);
  threads_->run(ceil_div(rows, each), [&](int64_t index, int worker) {
    const auto own = static_cast<size_t>(worker);
    Device& device = worker_devices_.empty() ? *this : *worker_devices_[own];
    const int64_t first = index * each;
    task({first, std::min(each, rows - first), device, worker});
  });
}

void CpuDevice::parallel(int64_t n, const std::function<void(int64_t)>& task) {
  threads_->run(n, [&](int64_t index, int) { task(index); });
}

std::unique_ptr<Step> CpuDevice::begin_step(const StepArrays& arrays) {
  return std::make_unique<CpuStep>(context_, arrays, not_finite_);
}

std::unique_ptr<DeviceSizes> cpu_device_sizes(const CpuOptions& options) {
  return std::make_unique<CpuSizes>(options.types, table_of(choose_isa(options.isa), options.types),
                                    options.threads ? options.threads->count() : options.workers);
}

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace prefix::ops
