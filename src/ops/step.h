// A step of a device: rows of tokens from their embedding to the numbers that are read of them. It
// has the arrays that its operations work on, brought to where the device reads them.
//
//   Device::begin_step(arrays) ─> Step ─┬ clear_pages, embed
//                                       ├ each layer: qkv, copy_pages, attention    of rows() rows
//                                       │ in the last one, maybe, keep_rows()       of some of them
//                                       ├ begin_heads(arrays), gather_rows          of selected rows
//                                       ├ row_stats, gather_logits, top_candidates
//                                       └ end()
//
// Operations that need no array of the step (norms, products) are the device's own (op.h), as are
// the conventions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ops/attention_plan.h"
#include "ops/logits.h"
#include "ops/op.h"
#include "ops/scan_plan.h"

namespace prefix::ops {

// What a step computes. The arrays stay as they are until it is over.
struct StepArrays {
  std::span<const int32_t> tokens;     // of each row
  std::span<const int32_t> positions;  // that attention counts by
  std::span<const int32_t> rope_rows;  // of the rotary tables
  std::span<const KvSlot> slots;       // where its key and value go
  std::span<const int32_t> clear;      // pages
  std::span<const PageCopy> copies;
  std::span<const int32_t> reads;            // rows that gather_rows() is expected to be asked for
  std::span<const AttentionPlan> attention;  // of each window that layers have
  int32_t heads = 0;
  KvLayout kv;
  std::byte* pool = nullptr;       // the pages
  const ScanPlan* scan = nullptr;  // of models with recurrent layers
  StateLayout state;
};

// Rows that go on when all keys, values and states are there.
struct KeptRows {
  std::span<const int32_t> rows;             // of the step, ascending: row i is rows[i] from now on
  std::span<const int32_t> positions;        // of each
  std::span<const AttentionPlan> attention;  // as that of the step; only what is still read
};

// A buffer that has something for each row of a step.
struct RowBuffer {
  std::byte* data = nullptr;
  size_t stride = 0;  // bytes from row to row,
  size_t bytes = 0;   // and of what is kept
};

// Splits the fused projection of a layer into query, key and value.
struct QkvArgs {
  int32_t layer = 0;
  // [rows, (heads + 2 * kv_heads) * head_dim], order q, k, v, as Device::project() wrote it.
  const void* qkv = nullptr;
  int64_t ld = 0;                 // elements
  const float* bias = nullptr;    // that project() was given
  const float* q_norm = nullptr;  // null: none; [head_dim], or [heads * head_dim] if whole_width
  const float* k_norm = nullptr;  // null: none; [head_dim], or [kv_heads * head_dim]
  bool norm_whole_width = false;  // RMS over all heads together (OLMo-2) instead of per head
  float norm_eps = 0;
  // Rotary embedding, "half split" convention: element i pairs with i + rotary_dim / 2; elements
  // from rotary_dim on pass through. Tables [positions, rotary_dim / 2].
  int32_t rotary_dim = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  ActivationBuffer q;  // [rows, heads * head_dim], written
  // qkv_rows() only: qkv has vectors [first_head, end_head) of the heads + 2 * kv_heads of a row.
  // end_head 0: all, which norm_whole_width needs.
  int64_t first_head = 0, end_head = 0;
};

struct AttentionArgs {
  int32_t layer = 0;
  ActivationBuffer q;    // [rows, heads * head_dim], rotated
  ActivationBuffer out;  // [rows, heads * head_dim]
  int32_t plan = 0;      // of StepArrays::attention
  float scale = 0;       // scores are q.k * scale before the softmax,
  float soft_cap = 0;    // or, where this is not 0, soft_cap * tanh(q.k * scale / soft_cap)
  // [heads]: each a score of one more key, which has no value: it takes part in the sum of the
  // softmax only (an attention sink). Null: none. Not every device has these two, nor windows.
  const float* sinks = nullptr;
};

// The causal convolution of a recurrent layer, over the last tokens of each row's path: one filter
// a channel. Channels may come from several ranges of columns of a projection (x, B, C in a row).
struct ConvArgs {
  int32_t layer = 0;         // of the state
  const float* x = nullptr;  // [rows, conv_channels], raw
  int64_t ld = 0;
  const float* weight = nullptr;  // [conv_channels, conv_width]
  const float* bias = nullptr;    // [conv_channels]; null: none
  bool silu = false;              // of the result
  float* out = nullptr;           // [rows, conv_channels], apart from x. Without a scan what is not
                                  // finite marks the row.
  int64_t ld_out = 0;
};

// Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"). Per head, S is [state, head_dim]:
//   dt = softplus(dt + dt_bias), clamped     S <- exp(dt A) S + B (outer) dt x     y = C S + D x
// Scan state of a layer: S of each head in turn.
struct Mamba2Args {
  int32_t layer = 0;  // of the state
  int32_t heads = 0, head_dim = 0, groups = 0, state = 0;
  const float* x = nullptr;  // [rows, heads * head_dim | groups * state (B) | groups * state (C)]
  int64_t ld = 0;
  const float* dt = nullptr;  // [rows, heads]
  int64_t ld_dt = 0;
  const float* dt_bias = nullptr;  // [heads]
  const float* a = nullptr;        // [heads]: A, negative
  const float* d = nullptr;        // [heads]
  float dt_min = 0, dt_max = 0;    // dt_max 0: no clamp
  float* y = nullptr;              // [rows, heads * head_dim]; what is not finite marks the row
  int64_t ld_y = 0;
};

// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"). Per value head, S is
// [key_dim, value_dim]; key head = value head / (value_heads / key_heads):
//   q, k: each over its norm sqrt(sum + 1e-6), q / sqrt(key_dim)
//   g = a_scale softplus(a + dt_bias)        b = sigmoid(b)
//   S <- e^g S     delta = b (v - k S)       S <- S + k (outer) delta     y = q S
// Scan state of a layer: S of each value head in turn.
struct GatedDeltaArgs {
  int32_t layer = 0;  // of the state
  int32_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  const float* qkv = nullptr;  // [rows, key_heads * key_dim (q) | (k) | value_heads * value_dim]
  int64_t ld = 0;
  const float* a = nullptr;  // [rows, value_heads]
  const float* b = nullptr;  // [rows, value_heads]
  int64_t ld_ab = 0;
  const float* a_scale = nullptr;  // [value_heads]: -exp(A_log)
  const float* dt_bias = nullptr;  // [value_heads]
  float* y = nullptr;              // [rows, value_heads * value_dim]; as of Mamba2Args
  int64_t ld_y = 0;
};

// What row_stats() finds of a row.
enum : uint8_t { kWantFirst = 1, kWantSum = 2 };

// What heads read: rows of the step, and of these selected rows, counted from 0:
struct HeadArrays {
  std::span<const int32_t> rows;
  std::span<const uint8_t> wants;           // kWantFirst, kWantSum of each
  std::span<const LogitAt> targets;         // single logits
  std::span<const int32_t> candidate_rows;  // whose most likely tokens are wanted
  int32_t candidates = 0;                   // how many of each, at most kMaxCandidates
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

// Left without end(), by an exception or because its results are not wanted any more, a step is
// aborted: whatever of it is not computed yet may never be. One step at a time.
class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;

  // Rows that operations of the layers work on: those of the arrays, then rows of padding, so that
  // steps look alike. Buffers have room for them.
  virtual int64_t rows() const = 0;

  // Zeroes the pages of `clear` (all layers).
  virtual void clear_pages() = 0;
  // out[r, :] = row tokens[r] of W (the embedding table), times `scale`.
  virtual void embed(const PackedWeights& w, float scale, float* out, int64_t ld) = 0;
  // Norms and rotates q and k, writes q and appends k and v to their slots. What is not finite (NaN
  // or an infinity, once it is rounded to the type of the pages) is appended as 0: a masked key's
  // value is still multiplied by 0, which must give 0.
  virtual void qkv(const QkvArgs& args) = 0;
  // The same of a block of rows (op.h) on the calling thread;
  // args.qkv and args.q begin with the first.
  virtual void qkv_rows(const QkvArgs& args, int64_t first, int64_t rows);
  // In order (a copy may read what an earlier one wrote), for one layer.
  virtual void copy_pages(int32_t layer) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  // From now on rows() and what attention() reads are those of the kept rows, and the buffers have
  // them in their first rows; begin_heads() and not_finite() still count as before. Nothing that
  // writes keys, values or states may follow. Of a device that keeps_rows().
  virtual void keep_rows(const KeptRows& kept, std::span<const RowBuffer> buffers);
  // Recurrent layers, over the paths of the rows (scan_plan.h). They read and write stored states
  // of their layer: a layer is convolved once and scanned once in a step.
  virtual void conv(const ConvArgs& args) = 0;
  virtual void scan(const Mamba2Args& args) = 0;
  virtual void scan(const GatedDeltaArgs& args) = 0;
  // The most bytes of states that a scan of this step has had in memory of its own, for segments
  // still to come.
  virtual int64_t scan_bytes() const { return 0; }
  // Of each row: not 0 when qkv() had a key or value for it, or scan() a result, or conv() one in a
  // layer without a scan, in any layer so far, that is not finite. What depends on that row's slots
  // is wrong. Waits for a GPU; good until the next step begins.
  virtual std::span<const int32_t> not_finite() = 0;

  // The layers are done: what follows works on selected rows and on these arrays, until the next
  // call.
  virtual void begin_heads(const HeadArrays& arrays) = 0;
  // out[i] = x[rows[i]], f32.
  virtual void gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) = 0;
  // What follows reads a few numbers of a block of logits; `out` is memory of the device. Elements
  // of the arrays that belong to rows outside of the block are left alone.
  //
  // out[row], as wants[row] says; a device may tell more.
  virtual void row_stats(const LogitBlock& block, RowStats* out) = 0;
  // out[i] = the logit targets[i].
  virtual void gather_logits(const LogitBlock& block, float* out) = 0;
  // out[i][0, k), k = candidates: the most likely tokens of candidate_rows[i], 1 <= k <= n.
  // Undefined for a row with a NaN. A zero may lose its sign.
  virtual void top_candidates(const LogitBlock& block, Candidate* out) = 0;

  // Returns when all of it is computed, and throws what went wrong. Results that were downloaded
  // are there without it.
  virtual void wait() {}
  void end() { ended_ = true; }

 protected:
  bool ended() const { return ended_; }

 private:
  bool ended_ = false;
};

}  // namespace prefix::ops
