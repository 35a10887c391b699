// The tensor operations of a step, and the interface that a device implements.
//
// The forward pass (src/model/forward.cc) is written once over Device and Step (step.h); cpu/ and
// op_cpu.cc implement them here, gpu/ and op_gpu.cc for a GPU. Conventions:
//   - a *row* is one tree token of the step; matrices are row-major [rows, columns] with a leading
//     dimension `ld` in elements (>= columns).
//   - f32 buffers hold residuals, scores and outputs; an ActivationBuffer holds GEMM inputs in the
//     type the device multiplies: bf16 where it has bf16 units, f32 otherwise.
//   - every operation computes a row from that row alone (and the keys it may see), with sums in an
//     order fixed by shapes and positions: results do not depend on the other rows, on the number
//     of threads or on how work is tiled.
//   - what a call needs besides its arguments is kept for the next one, but short lists of what to
//     do; all calls come from one thread, but those of a RowBlock, which go to a device that computes
//     on the thread of the block alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "ops/activation.h"
#include "ops/calibration_rows.h"
#include "ops/device_sizes.h"
#include "ops/experts.h"
#include "ops/kv_layout.h"
#include "ops/low_rank.h"
#include "ops/weights.h"

namespace prefix::ops {

// An activation buffer; elements of Device::compute_type().
struct ActivationBuffer {
  std::byte* data = nullptr;
  int64_t ld = 0;  // elements
};

// A copy from memory of a device to memory of the host.
struct Download {
  void* host = nullptr;
  const void* device = nullptr;
  size_t bytes = 0;
};

class Device;
class Step;
struct StepArrays;

// Rows [first, first + rows) of a step, which a thread takes through several operations on its own.
struct RowBlock {
  int64_t first = 0;
  int64_t rows = 0;
  Device& device;      // for operations on the calling thread alone
  int32_t worker = 0;  // of those that compute at the same time
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu"
  virtual std::string_view isa() const = 0;   // "avx512_bf16"
  // Everything about the device and its libraries that decides bits.
  virtual std::string numerics() const { return std::string(isa()); }
  // How pages lie where it is not as KvLayout says; part of what names a stored page.
  virtual std::string_view page_layout() const { return {}; }
  virtual NumericTypes types() const = 0;
  // How buffers for it are laid out; the five below are the same.
  virtual const DeviceSizes& sizes() const = 0;
  ComputeType compute_type() const { return sizes().compute_type(); }
  size_t act_bytes() const { return sizes().act_bytes(); }
  size_t projection_bytes() const { return sizes().projection_bytes(); }
  int64_t act_ld(int64_t columns) const { return sizes().act_ld(columns); }
  int64_t f32_ld(int64_t columns) const { return sizes().f32_ld(columns); }

  // Zeroed, 64-byte aligned memory; physical memory is used when first touched. Throws
  // kOutOfMemory.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* data, size_t bytes) = 0;

  // Memory of allocate() may lie where the host cannot reach it. Matrices, vectors, activations and
  // pages are in it; the arrays that say what to do (spans, plans) are in host memory.
  bool host_memory() const { return sizes().host_memory(); }
  // Copies to and from memory of allocate(), in order with the operations; the host's side is done
  // with when the call returns.
  virtual void upload(void* device, const void* host, size_t bytes);
  virtual void download(void* host, const void* device, size_t bytes);
  // The same for many pieces, between steps: a GPU is not waited for after each.
  virtual void download_all(std::span<const Download> pieces);
  // Memory of the host that download() fills at full speed.
  virtual std::byte* allocate_host(size_t bytes);
  virtual void release_host(std::byte* data, size_t bytes);
  // Bytes that allocate() could still give.
  virtual int64_t free_bytes() const = 0;
  // Packed query rows that an attention tile should have: enough to use each page many times while
  // queries, scores and outputs stay in the fastest memory.
  virtual int32_t tile_rows() const { return kAttentionTileRows; }
  // Steps may go on with some of their rows (Step::keep_rows).
  virtual bool keeps_rows() const { return false; }
  // Takes the memory that the device itself needs for steps up to this shape, so that none of them
  // has to: sizes().workspace_bytes(). Throws kOutOfDeviceMemory.
  virtual void reserve(const ReserveShape&) {}
  // Bytes that the device has for itself by now, where steps take them when they come.
  virtual size_t workspace_now() const { return 0; }
  // Calls step(rows) for row counts that steps will have, `max_rows` at most. Meanwhile linear()
  // and linear_gated() compute nothing, but do what would cost the first products of their shapes
  // time: choose algorithms, load kernels. Their results are undefined.
  virtual void warm_up(int64_t /*max_rows*/, const std::function<void(int64_t rows)>& /*step*/) {}
  // At least so many rows: of the few numbers for which products are prepared.
  virtual int64_t padded_rows(int64_t rows) const { return rows; }
  // The arrays are read until the step is over. Throws kOutOfDeviceMemory.
  virtual std::unique_ptr<Step> begin_step(const StepArrays& arrays) = 0;

  // Packs W[n, k] row by row, on all threads: types().weights, or int8 or blocks on the CPU (blocks
  // where PackedWeights::of_blocks() can). Of two sources, gate and up, for linear_gated():
  // panel 2j = gate columns 32j.., 2j+1 = up. Int8 loses least in products with inputs like
  // those of `calibration`; null: numbers are rounded to the nearest. The matrix lives until
  // release(data, bytes()).
  virtual PackedWeights pack_sources(WeightFormat format, int64_t n, int64_t k,
                                     std::span<const WeightSource* const> sources,
                                     const CalibrationRows* calibration = nullptr) = 0;
  PackedWeights pack(WeightFormat format, int64_t n, int64_t k, const WeightSource& rows) {
    const WeightSource* const sources[] = {&rows};
    return pack_sources(format, n, k, sources);
  }
  PackedWeights pack_gated(WeightFormat format, int64_t n, int64_t k, const WeightSource& gate,
                           const WeightSource& up) {
    const WeightSource* const sources[] = {&gate, &up};
    return pack_sources(format, n, k, sources);
  }

  // out = x / sqrt(mean(x^2) + eps) * weight, rows [0, rows), columns `n`.
  virtual void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                        int64_t n, ActivationBuffer out) = 0;
  // As rms_norm, in f32; x may equal out. add: out += instead of out = (post-norm residual).
  virtual void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                            int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) = 0;
  // y[r, 0..w.n) = x[r] W^T (+ bias) or, with add, y += x[r] W^T (+ bias). bias: null or [w.n].
  virtual void linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows,
                      float* y, int64_t ld, bool add) = 0;
  // y[r, 0..w.n) = x[r] W^T (+ bias) for qkv() to read, which is given the bias, too: a device
  // adds it here or there. f32, or where that saves time activations: projection_bytes().
  virtual void project(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows,
                       void* y, int64_t ld) {
    linear(w, bias, x, rows, static_cast<float*>(y), ld, false);
  }
  // out[r, 0..n) = fn(x G^T + bias_gate, x U^T + bias_up) with w from pack_gated, w.n = 2 n
  // (n rounded up to whole panels inside w). Biases may be null.
  virtual void linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                            const float* bias_up, ActivationFn fn, ActivationBuffer x, int64_t rows,
                            ActivationBuffer out) = 0;
  // The same two of W + B A for some of the rows; b as w was packed. On the CPU only:
  // others have no adapters.
  struct LowRankArgs {
    std::span<const LowRankRows> rows;  // ascending, apart from each other
    float* sums = nullptr;              // [rows, widest rank], written
    int64_t ld_sums = 0;
    ActivationBuffer inner;  // [rows, widest rank], written: x A^T
  };
  virtual void linear_adapted(const PackedWeights& w, const float* bias, const LowRankArgs& adapted,
                              ActivationBuffer x, int64_t rows, float* y, int64_t ld, bool add);
  // linear_adapted() on the device of a RowBlock, a slice of the columns after the other:
  // each(first, count) finds columns [first, first + count) at the beginning of the rows of y,
  // where the next slice takes their place. `slice`: columns of each, a multiple of 64; the last
  // has what is left.
  virtual void linear_in_slices(const PackedWeights& w, const float* bias,
                                const LowRankArgs& adapted, ActivationBuffer x, int64_t rows,
                                float* y, int64_t ld, int64_t slice,
                                const std::function<void(int64_t first, int64_t count)>& each);
  virtual void linear_gated_adapted(const PackedWeights& w, int64_t n, const float* bias_gate,
                                    const float* bias_up, ActivationFn fn,
                                    const LowRankArgs& adapted, ActivationBuffer x, int64_t rows,
                                    ActivationBuffer out);
  // Rows of `heads` groups of n numbers: out = x / sqrt(mean(x^2) + eps) * weight of each group,
  // with x = y silu(z) where the gate goes first (Mamba-2), else times silu(z) in the end (gated
  // delta rule). weight: [heads * n], or [n] with shared_weight.
  struct GatedNormArgs {
    const float* y = nullptr;
    int64_t ld_y = 0;
    const float* z = nullptr;
    int64_t ld_z = 0;
    const float* weight = nullptr;
    bool shared_weight = false;
    bool gate_first = false;
    float eps = 0;
    int64_t heads = 1, n = 0;
  };
  virtual void gated_norm(const GatedNormArgs& args, int64_t rows, ActivationBuffer out) = 0;
  // x *= sigmoid(gate), of activations.
  virtual void multiply_sigmoid(const float* gate, int64_t ld, int64_t rows, int64_t n,
                                ActivationBuffer x) = 0;
  // y *= x.
  virtual void multiply(const float* x, int64_t ld, int64_t rows, int64_t n, float* y,
                        int64_t ld_y) = 0;
  // out = max(x, 0)^2 as activations.
  virtual void squared_relu(const float* x, int64_t ld, int64_t rows, int64_t n,
                            ActivationBuffer out) = 0;
  // Which experts each row uses: the per_row highest of its scores, of equal ones the first. Their
  // weights are the softmax over the chosen scores if normalized, else over all.
  struct RouteArgs {
    const float* scores = nullptr;  // [rows, experts]
    int64_t ld = 0;
    int32_t experts = 0;
    int32_t per_row = 0;
    bool normalized = false;
  };
  virtual void route(const RouteArgs& args, int64_t rows, ExpertSlots& slots) = 0;
  // out[row] += weight down (fn (gate x[row], up x[row])) of each expert of a row, one after the
  // other. Allocates a list of the experts.
  struct ExpertsArgs {
    std::span<const ExpertWeights> experts;
    int64_t hidden = 0, intermediate = 0;
    ActivationFn fn = ActivationFn::kSilu;
    ActivationBuffer x;         // [rows, hidden]
    ActivationBuffer gathered;  // [slots, hidden], written
    ActivationBuffer inner;     // [slots, intermediate], written
    float* results = nullptr;   // [slots, hidden], written
    int64_t ld_results = 0;
    float* out = nullptr;  // [rows, hidden]
    int64_t ld_out = 0;
  };
  virtual void experts(const ExpertsArgs& args, const ExpertSlots& slots) = 0;
  // x = cap * tanh(x / cap).
  virtual void soft_cap(float* x, int64_t ld, int64_t rows, int64_t n, float cap) = 0;
  // out = x as activations, no norm (for architectures that multiply the residual itself).
  virtual void convert(const float* x, int64_t ld, int64_t rows, int64_t n,
                       ActivationBuffer out) = 0;

  // Calls task(block) for all blocks of sizes().block_rows() of so many rows, on all threads.
  virtual void over_blocks(int64_t rows, const std::function<void(const RowBlock&)>& task);

  // Runs task(i) for i in [0, n) on the host's worker threads of this device. Any thread; outside
  // of a step it waits for a turn of theirs.
  virtual void parallel(int64_t n, const std::function<void(int64_t)>& task) = 0;
};

struct CpuOptions {
  NumericTypes types;
  std::string_view isa = "auto";      // auto, amx, avx512_bf16, avx512, avx2, neon, scalar
  std::shared_ptr<Threads> threads;   // null: the calling thread alone
  int32_t workers = 1;                // for sizes without threads: how many they will be
  InputObserver* observer = nullptr;  // null: none
};

// Throws kUnsupportedDevice when the machine lacks the level that was asked for.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

// Of the device that these options make.
std::unique_ptr<DeviceSizes> cpu_device_sizes(const CpuOptions& options);

// Levels this machine can run, best first, and why the others cannot ("" = can).
struct IsaLevel {
  std::string_view name;
  bool available;
  bool chosen;
  std::string_view reason;
};
std::span<const IsaLevel> cpu_isa_levels();

}  // namespace prefix::ops
