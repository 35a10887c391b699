// The forward pass: embedding, then the blocks of each layer, over the rows of one step.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/activation_buffers.h"
#include "model/blocks/block.h"
#include "model/model.h"
#include "model/row_pieces.h"

namespace prefix {

// Those that the plan names, held for the pass, and memory for their products.
std::vector<PassAdapter> Model::adapters_of(const StepPlan& plan) {
  std::vector<PassAdapter> list;
  int64_t widest = 0;
  for (const StepPlan::AdapterRows& rows : plan.adapters) {
    std::shared_ptr<const Adapter> adapter = adapters_.find(rows.adapter);
    PREFIX_CHECK(adapter);
    widest = std::max(widest, adapter->widest());
    list.push_back({rows.begin, rows.end, std::move(adapter)});
  }
  if (widest > 0) {
    buffers_->ensure_thin(widest);
    for (const BlockWorker& worker : workers_) worker.buffers->ensure_thin(widest);
    note_memory();
  }
  return list;
}

// Memory for blocks of so many rows on each thread; none where operations follow each other,
// because the rows are few or because of the model (activation_rows()).
std::vector<BlockWorker>& Model::workers_of(int64_t rows) {
  const ops::DeviceSizes& sizes = device_.sizes();
  if (sizes.block_rows(rows) == 0 || activation_rows(config_, sizes, rows).block == 0)
    return no_workers_;
  while (workers_.size() < static_cast<size_t>(sizes.workers()))
    workers_.push_back({std::make_unique<ActivationBuffers>(device_), {}});
  for (const BlockWorker& worker : workers_) worker.buffers->ensure_block(rows, config_);
  note_memory();
  return workers_;
}

int32_t Model::last_attention() const {
  const int64_t last = last_mixer(layers_);
  if (last < 0) return -1;
  const LayerSpec& layer = layers_[static_cast<size_t>(last)];
  return layer.mixer == Mixer::kAttention ? layer.attention_plan : -1;
}

// The rows that are read go on alone, in the first rows of the buffers: of the others all is there
// that will be read of them.
void Model::keep_reads(const StepPlan& plan, ops::Step& step, std::vector<PassAdapter>& adapters) {
  Stopwatch watch(times_.other_ns);
  const ActivationBuffers& b = *buffers_;
  const auto buffer = [](auto* data, int64_t ld, size_t each) {
    const size_t bytes = static_cast<size_t>(ld) * each;
    return ops::RowBuffer{reinterpret_cast<std::byte*>(data), bytes, bytes};
  };
  std::vector<ops::RowBuffer> buffers = {buffer(b.x, b.x_ld, sizeof(float)),
                                         buffer(b.q.data, b.q.ld, device_.act_bytes())};
  if (config_.attention_gate) buffers.push_back(buffer(b.c, b.qkv_ld, sizeof(float)));
  step.keep_rows({plan.reads, plan.kept.positions, plan.kept.attention}, buffers);
  const auto kept = [&](int64_t row) {
    return std::ranges::lower_bound(plan.reads, row) - plan.reads.begin();
  };
  for (PassAdapter& one : adapters) {
    one.begin = kept(one.begin);
    one.end = kept(one.end);
  }
}

// `mixed`: rows that went into the mixer; `rows`: those that went on. Of recurrent layers all rows
// come out of it.
void Model::count_flops(size_t layer, int64_t mixed, int64_t rows) {
  const LayerWeights& w = weights_.layers[layer];
  const auto size = [](const ops::PackedWeights& matrix) { return matrix.n * matrix.k; };
  // Panels of gate and up may have columns of padding.
  const int64_t inputs = layers_[layer].feed_forward == FeedForward::kSquaredRelu ? 1 : 2;
  const auto block = [&](const ops::PackedWeights& in, const ops::PackedWeights& down) {
    return inputs * in.k * down.k + size(down);
  };
  const bool attention = layers_[layer].mixer == Mixer::kAttention;
  int64_t sum = mixed * size(w.mixer_in) + (attention ? rows : mixed) * size(w.mixer_out) +
                rows * (block(w.gate_up, w.down) + size(w.router));
  if (!w.experts.empty())
    sum +=
        rows * config_.experts.per_token * block(w.experts.front().gate_up, w.experts.front().down);
  times_.gemm_flops += 2 * sum;
}

std::unique_ptr<ops::Step> Model::forward(const StepPlan& plan, KvMemory& kv,
                                          const std::function<bool()>& stop) {
  ensure_rows(plan.rows());
  selected_ = 0;
  ActivationBuffers& b = *buffers_;
  std::unique_ptr<ops::Step> step;
  {
    Stopwatch watch(times_.other_ns);
    step = device_.begin_step({plan.tokens, plan.positions, plan.rope_rows, plan.slots, plan.clear,
                               plan.copies, plan.reads, plan.attention, config_.heads, kv.layout(),
                               kv.data(), &plan.scan, state_layout()});
    step->clear_pages();
    step->embed(weights_.embedding, config_.embedding_scale(), b.x, b.x_ld);
  }
  std::vector<BlockWorker>& workers = workers_of(step->rows());
  std::vector<PassAdapter> adapters = adapters_of(plan);
  Pass pass{device_, *step, config_, rotations_, b, times_, adapters};
  RowPieces pieces(pass, layers_, weights_.layers, workers);
  const int64_t last = plan.kept.on ? last_mixer(layers_) : -1;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (stop && stop()) return nullptr;
    const bool is_last = std::cmp_equal(i, last);
    const int64_t mixed = pass.rows();
    pass.layer = i;
    const LayerSpec& layer = layers_[i];
    const LayerWeights& w = weights_.layers[i];
    switch (layer.mixer) {
      case Mixer::kNone:
        break;
      case Mixer::kAttention:
        pieces.add(i, attention_in);
        pieces.run();
        copy_pages(pass, layer);
        if (is_last) keep_reads(plan, *step, adapters);
        attend(pass, layer, w);
        pieces.add(i, attention_out);
        break;
      case Mixer::kMamba2:
        pieces.run();
        mamba2_block(pass, layer, w);
        break;
      case Mixer::kGatedDelta:
        pieces.run();
        gated_delta_block(pass, layer, w);
        break;
      case Mixer::kShortConv:
        pieces.run();
        short_conv_block(pass, layer, w);
        break;
    }
    if (is_last && layer.mixer != Mixer::kAttention) keep_reads(plan, *step, adapters);
    count_flops(i, mixed, pass.rows());
    if (pass.rows() == 0) break;
    switch (layer.feed_forward) {
      case FeedForward::kNone:
        break;
      case FeedForward::kGated:
        pieces.add(i, gated_mlp_block);
        break;
      case FeedForward::kSquaredRelu:
        pieces.add(i, squared_relu_block);
        break;
      case FeedForward::kExperts:
        pieces.run();
        experts_block(pass, layer, w);
        break;
    }
  }
  pieces.run();
  times_.live_state_bytes_peak = std::max(times_.live_state_bytes_peak, step->scan_bytes());
  note_memory();
  return step;
}

}  // namespace prefix
