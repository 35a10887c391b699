#include "model/layer.h"

#include <algorithm>

namespace prefix {

std::vector<LayerSpec> resolve_layers(const ModelConfig& config, const Architecture& architecture) {
  const TensorNames& names = config.from_gguf ? architecture.gguf : architecture.hugging_face;
  std::vector<LayerSpec> layers(static_cast<size_t>(config.layers));
  int32_t kv_layer = 0, state_layer = 0;
  for (int32_t i = 0; i < config.layers; ++i) {
    LayerSpec& layer = layers[static_cast<size_t>(i)];
    layer.mixer_norms = {!names.attention_norm.empty(), !names.post_attention_norm.empty()};
    layer.feed_forward = config.feed_forward;
    if (architecture.single_blocks && config.kind(i) != LayerKind::kFeedForward)
      layer.feed_forward = FeedForward::kNone;
    switch (config.kind(i)) {
      case LayerKind::kAttention:
        layer.qk_norm = architecture.qk_norm;
        layer.kv_layer = kv_layer++;
        break;
      case LayerKind::kRecurrent:
        layer.mixer = config.recurrent.mixer;
        layer.state_layer = state_layer++;
        break;
      case LayerKind::kFeedForward:
        layer.mixer = Mixer::kNone;
        break;
    }
    layer.feed_forward_norms = {!names.ffn_norm.empty(), !names.post_ffn_norm.empty()};
  }
  return layers;
}

int32_t kv_layers(const std::vector<LayerSpec>& layers) {
  int32_t count = 0;
  for (const LayerSpec& layer : layers) count = std::max(count, layer.kv_layer + 1);
  return count;
}

}  // namespace prefix
