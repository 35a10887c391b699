// A model's life and memory: loading, what steps need, the sizes that others ask for.
#include "model/model.h"

#include <algorithm>

#include "base/status.h"
#include "model/activation_buffers.h"
#include "model/load/weights.h"
#include "model/rope.h"
#include "model/row_pieces.h"
#include "model/step_memory.h"

namespace prefix {

Model::Model(ModelFiles files, ops::Device& device, int32_t max_positions, const Progress& progress,
             const LoadExtras& extras)
    : device_(device), config_(files.config), max_positions_(max_positions) {
  const Architecture& architecture = find_architecture(config_.architecture);
  check_device(config_, device_.sizes());
  layers_ = resolve_layers(config_, architecture);
  weights_ = load_weights(files, architecture, device_, progress, extras);
  const auto add_rotation = [&](const ModelConfig& config) {
    const RopeTables tables = rope_tables(config, max_positions_);
    rotations_.push_back({ops::DeviceVector(device_, tables.cos),
                          ops::DeviceVector(device_, tables.sin), tables.rotary_dim,
                          tables.regime_switch});
  };
  try {
    files.tensors->check_files();  // weights of two versions would be silent
    add_rotation(config_);
    if (config_.window_rope) add_rotation(config_.of_window_rope());
    buffers_ = std::make_unique<ActivationBuffers>(device_);
  } catch (...) {
    release_weights(weights_, device_);
    throw;
  }
}

Model::~Model() { release_weights(weights_, device_); }

ops::KvLayout Model::kv_layout() const {
  return kv_layout_of(config_, kv_layers(layers_), device_.types().kv);
}

StateLayout Model::state_layout() const { return state_layout_of(config_); }

int32_t Model::state_pages() const { return state_layout().pages(kv_layout().page_bytes()); }

int64_t Model::weight_bytes() const {
  return packed_bytes(weights_) + rope_table_bytes(config_, max_positions_);
}

Model::BlockCount Model::block_count() const {
  BlockCount count;
  visit_all_matrices(weights_, [&](const ops::PackedWeights& matrix) {
    if (matrix.n == 0) return;
    ++count.all;
    if (matrix.format == ops::WeightFormat::kBlocks) ++count.in_blocks;
  });
  return count;
}

int32_t Model::rope_offset(int32_t length) const {
  const int32_t longest = rotations_.front().regime_switch;
  return longest > 0 && length > longest ? max_positions_ : 0;
}

void Model::ensure_rows(int64_t rows) {
  buffers_->ensure_rows(rows, config_);
  note_memory();
}

void Model::reserve(int64_t rows, int64_t pages) {
  ensure_rows(rows);
  if (!device_.host_memory()) {
    buffers_->logits.reserve(logit_bytes(config_, device_.sizes(), rows));
    buffers_->answers.reserve(answer_bytes(device_.sizes(), rows));
  }
  const ops::ReserveShape shape =
      reserve_shape(config_, device_.sizes(), kv_layout(), rows, pages, max_positions_);
  device_.reserve(shape);
  reserved_bytes_ = static_cast<int64_t>(device_.sizes().workspace_bytes(shape));
  note_memory();
  warm_up(rows);
}

std::shared_ptr<const Adapter> Model::load_adapter(const AdapterFiles& files,
                                                   const Adapter::Progress& progress) {
  if (!device_.host_memory())
    fail(Code::kUnsupportedDevice, "device \"", device_.name(),
         "\" has no adapters; they run on device \"cpu\" only");
  return std::make_shared<const Adapter>(files, config_, find_architecture(config_.architecture),
                                         layers_, device_, progress);
}

// All products of a step, of whatever is in the buffers.
void Model::warm_up(int64_t rows) {
  const ActivationBuffers& b = *buffers_;
  // A layer of attention: others run on the host only, where there is nothing to prepare.
  const auto attention = std::ranges::find(layers_, Mixer::kAttention, &LayerSpec::mixer);
  PREFIX_CHECK(attention != layers_.end());
  const LayerSpec& layer = *attention;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(attention - layers_.begin())];
  constexpr int64_t kMaxHeads = 64;
  const int64_t ld = ops::whole_panels(config_.vocab_size);
  int64_t heads = 1, chosen = 1;  // rows of whole logits, and of panels of them
  const bool post_mixer = layer.mixer_norms.after, post = layer.feed_forward_norms.after;
  device_.warm_up(rows, [&](int64_t n) {
    device_.project(w.mixer_in, w.mixer_in_bias.data(), b.a, n, b.c, b.qkv_ld);
    device_.linear(w.mixer_out, w.mixer_out_bias.data(), b.mixed, n, post_mixer ? b.c : b.x,
                   post_mixer ? b.c_ld : b.x_ld, !post_mixer);
    device_.linear_gated(w.gate_up, config_.intermediate, w.gate_bias.data(), w.up_bias.data(),
                         config_.activation, b.a, n, b.inner);
    device_.linear(w.down, w.down_bias.data(), b.inner, n, post ? b.c : b.x, post ? b.c_ld : b.x_ld,
                   !post);
    if (!config_.missing_output.empty()) return;
    // Selected rows are any number, not padded.
    for (; heads <= std::min(n, kMaxHeads); ++heads)
      device_.linear(weights_.output, nullptr, b.normed(), heads, logit_memory(logit_rows(), ld),
                     ld, false);
    for (; chosen <= n; chosen = panel_rows(chosen) + 1)
      device_.linear(weights_.output.panel_of(0), nullptr, b.normed(), panel_rows(chosen),
                     logit_memory(logit_rows(), ld), ops::kPanelColumns, false);
  });
}

void Model::note_memory() {
  int64_t bytes =
      buffers_->bytes() + reserved_bytes_ + static_cast<int64_t>(device_.workspace_now());
  for (const BlockWorker& worker : workers_) bytes += worker.buffers->bytes();
  times_.activation_bytes_peak = std::max(times_.activation_bytes_peak, bytes);
}

}  // namespace prefix
