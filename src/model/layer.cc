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
    layer.feed_forward = config.has_experts(i) ? FeedForward::kExperts : config.feed_forward;
    layer.shared = config.experts.shared && layer.feed_forward == FeedForward::kExperts;
    if (architecture.single_blocks && config.kind(i) != LayerKind::kFeedForward)
      layer.feed_forward = FeedForward::kNone;
    switch (config.kind(i)) {
      case LayerKind::kAttention:
        layer.qk_norm = architecture.qk_norm;
        // Whole texts are in one step, so no key is read again once its layer is done.
        layer.kv_layer = config.bidirectional ? 0 : kv_layer++;
        layer.window = config.window(i);
        layer.rope_table = config.window_rope && config.windows[static_cast<size_t>(i)] > 0 ? 1 : 0;
        if (!config.unrotated.empty() && config.unrotated[static_cast<size_t>(i)])
          layer.rope_table = -1;
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
  const std::vector<int32_t> windows = attention_windows(layers);
  for (LayerSpec& layer : layers)
    if (layer.kv_layer >= 0)
      layer.attention_plan =
          static_cast<int32_t>(std::ranges::find(windows, layer.window) - windows.begin());
  return layers;
}

int64_t last_mixer(const std::vector<LayerSpec>& layers) {
  auto i = std::ssize(layers) - 1;
  while (i >= 0 && layers[static_cast<size_t>(i)].mixer == Mixer::kNone) --i;
  return i;
}

std::vector<int32_t> attention_windows(const std::vector<LayerSpec>& layers) {
  std::vector<int32_t> windows;
  for (const LayerSpec& layer : layers)
    if (layer.kv_layer >= 0 && std::ranges::find(windows, layer.window) == windows.end())
      windows.push_back(layer.window);
  return windows;
}

int32_t kv_layers(const std::vector<LayerSpec>& layers) {
  int32_t count = 0;
  for (const LayerSpec& layer : layers) count = std::max(count, layer.kv_layer + 1);
  return count;
}

}  // namespace prefix
