// A loaded model: weights packed for the device, and the forward pass over the rows of a step.
//
//   tokens ─ embed ─> x ─> layer 0 ─> layer 1 ─> ... ─> x ─ select rows ─ norm ─ head ─> logits
//                          │
//                          ├ mixer          norm ─ qkv ─ rotate ─ append K, V ─ attention ─ out ─(+)
//                          │   or           norm ─ in ─ conv ─ scan ─ gated norm ─ out ─(+)
//                          │   or           norm ─ in ─ B * x ─ conv ─ C * it ─ out ─(+)
//                          └ feed-forward   norm ─ gate, up ─ act(gate) * up ─ down ─(+)
//                              or           norm ─ up ─ relu(up)^2 ─ down ─(+)
//                              or           norm ─ router ─ a few experts of gate, up, down ─(+)
//                                          and, beside them, gate, up ─ down ─(+)
//
//   model.cc life and memory · forward.cc the pass · row_pieces.h what of it goes block by block ·
//   blocks/ what a layer is made of (layer.h) · heads.cc what is read of the last layer
//
// Hidden states exist only for rows; heads run only on rows that were asked for. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "cache/kv_memory.h"
#include "model/adapter.h"
#include "model/config/config.h"
#include "model/dense_layers.h"
#include "model/files/model_files.h"
#include "model/label_head.h"
#include "model/layer.h"
#include "model/load/load_extras.h"
#include "model/step_memory.h"
#include "ops/buffers.h"
#include "ops/op.h"
#include "ops/step.h"
#include "plan/step.h"

namespace prefix {

class ActivationBuffers;
struct BlockWorker;
struct PassAdapter;

struct LayerWeights {
  // What the mixer works on: of attention [q | k | v | gate], of others as RecurrentConfig says.
  ops::PackedWeights mixer_in, mixer_out;
  ops::PackedWeights gate_up, down;  // up alone where there is no gate
  ops::PackedWeights router;         // [experts, hidden]
  std::vector<ops::ExpertWeights> experts;
  // Empty where the architecture has none.
  ops::DeviceVector mixer_norm, post_mixer_norm, ffn_norm, post_ffn_norm;
  ops::DeviceVector q_norm, k_norm;
  ops::DeviceVector sinks;  // [heads]: AttentionArgs::sinks
  ops::DeviceVector mixer_in_bias, mixer_out_bias, gate_bias, up_bias, down_bias;
  // Of a router, and of all experts, one after the other: ExpertWeights point into them.
  ops::DeviceVector router_bias, expert_gate_bias, expert_up_bias, expert_down_bias;
  // Of a recurrent layer: conv [channels, width], a (negative) and d of each head.
  ops::DeviceVector conv, conv_bias, dt_bias, a, d, gated_norm;
};

// All of a layer, for those who count, free or name what it is made of.
template <typename Visit>
void visit_matrices(const LayerWeights& w, const Visit& visit) {
  for (const ops::PackedWeights* matrix :
       {&w.mixer_in, &w.mixer_out, &w.gate_up, &w.down, &w.router})
    visit(*matrix);
  for (const ops::ExpertWeights& expert : w.experts) {
    visit(expert.gate_up);
    visit(expert.down);
  }
}
inline constexpr ops::DeviceVector LayerWeights::* kLayerVectors[] = {
    &LayerWeights::mixer_norm,
    &LayerWeights::post_mixer_norm,
    &LayerWeights::ffn_norm,
    &LayerWeights::post_ffn_norm,
    &LayerWeights::q_norm,
    &LayerWeights::k_norm,
    &LayerWeights::sinks,
    &LayerWeights::mixer_in_bias,
    &LayerWeights::mixer_out_bias,
    &LayerWeights::gate_bias,
    &LayerWeights::up_bias,
    &LayerWeights::down_bias,
    &LayerWeights::router_bias,
    &LayerWeights::expert_gate_bias,
    &LayerWeights::expert_up_bias,
    &LayerWeights::expert_down_bias,
    &LayerWeights::conv,
    &LayerWeights::conv_bias,
    &LayerWeights::dt_bias,
    &LayerWeights::a,
    &LayerWeights::d,
    &LayerWeights::gated_norm};

struct Weights {
  ops::PackedWeights embedding;
  ops::PackedWeights output;  // the same as embedding when tied
  bool tied = false;
  ops::DeviceVector output_norm;
  LabelHead label_head;
  DenseLayers dense;
  ops::DeviceVector logit_norm;  // over logits_scaling; empty where that is 1
  std::vector<LayerWeights> layers;
};

// Each once.
template <typename Visit>
void visit_all_matrices(const Weights& w, const Visit& visit) {
  visit(w.embedding);
  if (!w.tied) visit(w.output);
  for (const LayerWeights& layer : w.layers) visit_matrices(layer, visit);
}

// Rotary embedding of all positions, on the device.
struct Rotation {
  ops::DeviceVector cos, sin;  // [regimes * max_positions, dim / 2]
  int32_t dim = 0;             // dimensions of a head that turn
  int32_t regime_switch = 0;   // longrope: sequences longer than this use the second tables
};

// Where the time of forward passes went, and the most memory activations took. A device that
// computes after the calls have returned has no times.
struct ModelTimes {
  int64_t gemm_ns = 0;
  int64_t attention_ns = 0;
  int64_t other_ns = 0;
  int64_t gemm_flops = 0;  // of the products with the model's own matrices, two a multiply-add
  int64_t activation_bytes_peak = 0;
  int64_t live_state_bytes_peak = 0;  // of one recurrent layer at a time
};

class Model {
 public:
  using Progress = std::function<bool(double fraction)>;

  // Takes the files' tensors; throws kFormat naming a missing, extra or mis-shaped tensor, and
  // kCancelled when progress returns false.
  Model(ModelFiles files, ops::Device& device, int32_t max_positions, const Progress& progress,
        const LoadExtras& extras = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  const LabelHead& label_head() const { return weights_.label_head; }
  const DenseLayers& dense() const { return weights_.dense; }
  int32_t max_positions() const { return max_positions_; }
  ops::KvLayout kv_layout() const;
  // The windows of its layers of attention, each once; 0: none.
  std::vector<int32_t> windows() const { return attention_windows(layers_); }
  // Of these, the one of its last mixer; -1: that is no attention.
  int32_t last_attention() const;
  // What a state of the recurrent layers is made of; without any it has no layers.
  StateLayout state_layout() const;
  int32_t state_pages() const;   // that a state takes; 0: there are none
  int64_t weight_bytes() const;  // of matrices and rotary tables
  // Matrices that are in the blocks of their file, of all that there are (a tied head is one).
  struct BlockCount {
    int64_t in_blocks = 0, all = 0;
  };
  BlockCount block_count() const;
  // 32 bytes that are the same for two models exactly when the keys and values that they compute
  // are. Reads all weights once, on the device's threads, which are that many: half a second per GB
  // and core or less where the CPU has SHA instructions. Any thread. progress(1) returns false to
  // abort it (kCancelled).
  Sha256::Digest fingerprint(int threads, const Progress& progress = nullptr) const;
  // Row offset into the rotary tables for sequences of up to `length` tokens: models whose rotation
  // depends on the total length (longrope) have one table per regime, and one tree root for each.
  int32_t rope_offset(int32_t length) const;

  // Of an adapter that was opened, for adapters(); progress returns false to end that. Any thread.
  // Throws as Adapter does, and kUnsupportedDevice.
  std::shared_ptr<const Adapter> load_adapter(const AdapterFiles& files,
                                              const Adapter::Progress& progress);
  // Those that plans name.
  Adapters& adapters() { return adapters_; }

  // Takes the memory that steps of so many rows need, on a pool of at most so many pages; without
  // it they take it when they come. Throws kOutOfMemory, kOutOfDeviceMemory.
  void reserve(int64_t rows, int64_t pages);

  // Computes the rows of the plan: the step that has begun, whose results are selected and read
  // before it ends; the plan stays as it is until then. Null when stop() asked to give up between
  // two layers; keys and values written so far are then garbage in pages that were not committed.
  std::unique_ptr<ops::Step> forward(const StepPlan& plan, KvMemory& kv,
                                     const std::function<bool()>& stop);

  // Final norm of the given rows of the step that forward() returned; what follows refers to this
  // selection, and what the step reads of its logits to these arrays.
  void select(ops::Step& step, const ops::HeadArrays& arrays);
  // Rows to ask logits() for at once.
  int64_t logit_rows() const { return held_logit_rows(device_.host_memory()); }
  // Single logits to read at once of selected rows: as many as the device keeps room for.
  size_t targets_at_once() const;
  // Logits of selected rows [begin, end), in the device's memory until the next call of this or of
  // logits_of().
  ops::LogitBlock logits(int64_t begin, int64_t end);
  // Rows of such a block, ascending, for the host to read until the next call of this or of
  // hidden(). Rows that lie side by side come in one copy.
  std::vector<const float*> rows_on_host(const ops::LogitBlock& block,
                                         std::span<const int32_t> rows);
  // Whether they need no copy.
  bool logits_are_on_host() const { return device_.host_memory(); }
  // out[i] = the logit targets[i]: only the parts of the output matrix that hold one of them are
  // multiplied, so that a yes/no score costs two of them, not the vocabulary. The bits equal those
  // of logits(); on a GPU only with `invariant`.
  void logits_of(std::span<const ops::LogitAt> targets, std::span<float> out);
  // Device memory for what is read of logits: at least so much, until the next call.
  std::byte* answer_memory(size_t bytes);
  // Normed hidden states of the selection, f32 [rows, hidden], in host memory until the next call.
  const float* hidden();

  ModelTimes times() const {
    ModelTimes t = times_;
    if (!device_.host_memory()) t.gemm_ns = t.attention_ns = t.other_ns = t.gemm_flops = 0;
    return t;
  }
  ops::Device& device() { return device_; }

 private:
  void ensure_rows(int64_t rows);
  std::vector<PassAdapter> adapters_of(const StepPlan& plan);
  std::vector<BlockWorker>& workers_of(int64_t rows);
  void keep_reads(const StepPlan& plan, ops::Step& step, std::vector<PassAdapter>& adapters);
  void count_flops(size_t layer, int64_t mixed, int64_t rows);
  void warm_up(int64_t rows);
  void note_memory();
  std::string recurrence() const;  // for the fingerprint
  // Rows that a panel of so many selected ones is multiplied for: few different numbers, so that a
  // GPU has met them all.
  int64_t panel_rows(int64_t selected) const;
  void multiply_head(const ops::PackedWeights& w, int64_t begin, int64_t end, float* out,
                     int64_t ld);
  float* logit_memory(int64_t rows, int64_t ld);
  const float* on_host(const float* data, size_t floats);

  ops::Device& device_;
  ModelConfig config_;
  std::vector<LayerSpec> layers_;
  int32_t max_positions_;
  Weights weights_;
  std::vector<Rotation> rotations_;  // LayerSpec::rope_table
  std::unique_ptr<ActivationBuffers> buffers_;
  std::vector<BlockWorker> workers_;  // of steps in blocks of rows
  std::vector<BlockWorker> no_workers_;
  Adapters adapters_;
  int64_t selected_ = 0;        // rows
  int64_t reserved_bytes_ = 0;  // of the device itself
  ModelTimes times_;
};

}  // namespace prefix
