// The tensor operations of a step, and the interface that a device implements.
//
// The forward pass (src/model/forward.cc) is written once over this interface; op_cpu.cc implements
// it here and op_gpu.cc for a GPU. Conventions:
//   - a *row* is one tree token of the step; matrices are row-major [rows, columns] with a leading
//     dimension `ld` in elements (>= columns).
//   - f32 buffers hold residuals, scores and outputs; *activation* buffers (Act) hold GEMM inputs
//     in the type the device multiplies: bf16 where it has bf16 units, f32 otherwise.
//   - every operation computes a row from that row alone (and the keys it may see), with sums in an
//     order fixed by shapes and positions: results do not depend on the other rows, on the number
//     of threads or on how work is tiled.
//   - nothing here allocates per call except where said; all calls come from one thread.
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

#include "ops/attention_plan.h"
#include "ops/device_sizes.h"
#include "ops/kv_layout.h"
#include "ops/logits.h"
#include "ops/weights.h"

namespace prefix::ops {

// An activation buffer; elements of Device::compute_type().
struct Act {
  std::byte* data = nullptr;
  int64_t ld = 0;  // elements
};

// Splits the fused projection of a layer into query, key and value.
struct QkvArgs {
  // [rows, (heads + 2 * kv_heads) * head_dim], order q, k, v, as Device::project() wrote it.
  const void* qkv = nullptr;
  int64_t ld = 0;               // elements
  const float* bias = nullptr;  // that project() was given
  int32_t heads = 0;
  const float* q_norm = nullptr;  // null: none; [head_dim], or [heads * head_dim] if whole_width
  const float* k_norm = nullptr;  // null: none; [head_dim], or [kv_heads * head_dim]
  bool norm_whole_width = false;  // RMS over all heads together (OLMo-2) instead of per head
  float norm_eps = 0;
  // Rotary embedding, "half split" convention: element i pairs with i + rotary_dim / 2; elements
  // from rotary_dim on pass through. Tables [positions, rotary_dim / 2], indexed by position.
  int32_t rotary_dim = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
};

struct AttentionArgs {
  const AttentionPlan* plan = nullptr;
  const int32_t* positions = nullptr;  // [rows]
  Act q;                               // [rows, heads * head_dim], rotated
  Act out;                             // [rows, heads * head_dim]
  int32_t heads = 0;
  float scale = 0;  // scores are q.k * scale before the softmax
  int32_t layer = 0;
};

enum class Activation : int32_t { kSilu = 0 };

// The arrays of a step that its operations will name, for devices that need them elsewhere.
struct StepArrays {
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions;
  std::span<const int32_t> rope_rows;
  std::span<const KvSlot> slots;
  std::span<const int32_t> clear;
  std::span<const PageCopy> copies;
  std::span<const int32_t> reads;  // rows that gather_rows will be asked for
  const AttentionPlan* attention = nullptr;
  int32_t heads = 0;
  KvLayout kv;
};

// What heads read: rows of the step, and of these selected rows, counted from 0:
struct HeadArrays {
  std::span<const int32_t> rows;
  std::span<const LogitAt> targets;         // single logits
  std::span<const int32_t> candidate_rows;  // whose most likely tokens are wanted
};

// Logits of the selected rows [first, first + rows): x[rows, n], 16-byte aligned, ld a multiple
// of 4.
struct LogitBlock {
  const float* x = nullptr;
  int64_t ld = 0;
  int64_t first = 0;
  int64_t rows = 0;
  int64_t n = 0;

  bool has(int32_t row) const { return row >= first && row < first + rows; }
  const float* row(int64_t selected) const { return x + (selected - first) * ld; }
};

// A copy from memory of a device to memory of the host.
struct Download {
  void* host = nullptr;
  const void* device = nullptr;
  size_t bytes = 0;
};

// What row_stats() is asked about a row.
enum : uint8_t { kWantFirst = 1, kWantSum = 2 };

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
  virtual int32_t tile_rows() const { return 96; }
  // Takes the memory that the device itself needs for steps up to this shape, so that none of them
  // has to: sizes().workspace_bytes(). Throws kOutOfDeviceMemory.
  virtual void reserve(const ReserveShape&) {}
  // Calls step(rows) for row counts that steps will have, `most` at most. Meanwhile linear() and
  // linear_gated() compute nothing, but do what would cost the first products of their shapes time:
  // choose algorithms, load kernels. Their results are undefined.
  virtual void rehearse(int64_t /*most*/, const std::function<void(int64_t rows)>& /*step*/) {}
  // At least so many rows: of the few numbers for which products are prepared.
  virtual int64_t padded_rows(int64_t rows) const { return rows; }
  // What follows works on these arrays, which stay as they are until the next call.
  virtual void begin_step(const StepArrays&) {}
  // Of each row of the step: not 0 when qkv() had a key or value for it, in any layer so far, that
  // is not finite. What depends on that row's slots is wrong. Waits for a GPU; good until the next
  // begin_step().
  virtual std::span<const int32_t> not_finite() = 0;
  // Returns when all that was requested of the device is computed, and throws what went wrong.
  virtual void finish_step() {}
  // The step ends here, whatever of it has been computed: nobody reads its results.
  virtual void abort_step() {}
  // The layers of the step are done: what follows works on selected rows and on these arrays. Rows
  // that StepArrays did not announce come with the call.
  virtual void begin_heads(const HeadArrays&) {}

  // Packs W[n, k] row by row, on all threads. The matrix lives until release(data, bytes()).
  virtual PackedWeights pack(int64_t n, int64_t k, const WeightSource& rows) = 0;
  // Packs gate[n, k] and up[n, k] for linear_gated: panel 2j = gate columns 32j.., 2j+1 = up.
  virtual PackedWeights pack_gated(int64_t n, int64_t k, const WeightSource& gate,
                                   const WeightSource& up) = 0;

  // out[r, :] = row ids[r] of W (the embedding table), times `scale`.
  virtual void embed(const PackedWeights& w, std::span<const int32_t> ids, float scale, float* out,
                     int64_t ld) = 0;
  // out = x / sqrt(mean(x^2) + eps) * weight, rows [0, rows), columns `n`.
  virtual void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                        int64_t n, Act out) = 0;
  // As rms_norm, in f32; x may equal out. add: out += instead of out = (post-norm residual).
  virtual void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                            int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) = 0;
  // y[r, 0..w.n) = x[r] W^T (+ bias) or, with add, y += x[r] W^T (+ bias). bias: null or [w.n].
  virtual void linear(const PackedWeights& w, const float* bias, Act x, int64_t rows, float* y,
                      int64_t ld, bool add) = 0;
  // y[r, 0..w.n) = x[r] W^T (+ bias) for qkv() to read, which is told of the bias, too: a device
  // adds it here or there. f32, or where that saves time activations: projection_bytes().
  virtual void project(const PackedWeights& w, const float* bias, Act x, int64_t rows, void* y,
                       int64_t ld) {
    linear(w, bias, x, rows, static_cast<float*>(y), ld, false);
  }
  // out[r, 0..n) = act(x G^T + bias_gate) * (x U^T + bias_up) with w from pack_gated, w.n = 2 n
  // (n rounded up to whole panels inside w). Biases may be null.
  virtual void linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                            const float* bias_up, Activation act, Act x, int64_t rows, Act out) = 0;
  // Norms and rotates q and k, writes q and appends k and v to their slots in layer `layer`. What
  // is not finite (NaN or an infinity, once it is rounded to the type of the pages) is appended as
  // 0: whoever masks a key still multiplies its value by 0, which must be 0.
  virtual void qkv(const QkvArgs& args, std::span<const int32_t> positions,
                   std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool,
                   int32_t layer, Act q) = 0;
  // In order (a copy may read what an earlier one wrote), for one layer.
  virtual void copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                          int32_t layer) = 0;
  // Zeroes whole pages (all layers).
  virtual void clear_pages(std::span<const int32_t> pages, const KvLayout& kv, std::byte* pool) = 0;
  virtual void attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) = 0;
  // out[i] = x[rows[i]], f32.
  virtual void gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n,
                           float* out, int64_t ld_out) = 0;
  // out = x as activations, no norm (for architectures that multiply the residual itself).
  virtual void convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) = 0;

  // What follows reads a few numbers of a block of logits; `out` is memory of the device. Elements
  // of the arrays that belong to rows outside of the block are left alone.
  //
  // out[row]. wants[row]: kWantFirst, kWantSum; a device may answer more than was asked.
  virtual void row_stats(const LogitBlock& block, std::span<const uint8_t> wants,
                         RowStats* out) = 0;
  // out[i] = the logit targets[i].
  virtual void gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                             float* out) = 0;
  // out[i][0, k): the k most likely tokens of rows[i], 1 <= k <= min(n, kMostCandidates). Undefined
  // for a row with a NaN. A zero may lose its sign.
  virtual void top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                              Candidate* out) = 0;

  // Runs task(i) for i in [0, n) on the host's worker threads of this device.
  virtual void parallel(int64_t n, const std::function<void(int64_t)>& task) = 0;
};

// A step of a device, from its begin to its end. Left without end(), by an exception or because its
// results are not wanted any more, it is aborted.
class Step {
 public:
  Step(Device& device, const StepArrays& arrays) : device_(&device) {
    try {
      device.begin_step(arrays);
    } catch (...) {
      device.abort_step();
      throw;
    }
  }
  Step(Step&& other) noexcept : device_(std::exchange(other.device_, nullptr)) {}
  Step& operator=(Step&&) = delete;
  ~Step() {
    if (device_) device_->abort_step();
  }

  // Returns when all of it is computed, and throws what went wrong. Results that were downloaded
  // are there without it.
  void wait() { device_->finish_step(); }
  void end() { device_ = nullptr; }

 private:
  Device* device_;
};

struct CpuOptions {
  NumericTypes types;
  std::string_view isa = "auto";  // auto, amx, avx512_bf16, avx512, avx2, scalar
  int threads = 0;                // 0: one per available core
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
