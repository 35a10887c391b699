// What the layers of a model do, one by one: the configuration and the architecture, resolved.
//
//             before                                   after
//   x ─┬─ norm? ── mixer ( attention ) ──────────── norm? ─(+)─> x     KV of the layer: kv_layer
//      └───────────────────────────────────────────────────┘
//   x ─┬─ norm? ── feed-forward ( gated ) ───────── norm? ─(+)─> x
//      └───────────────────────────────────────────────────┘
//
// The forward pass asks nothing else about a model. A layer of another kind (recurrent, routed
// experts) is a value of Mixer or FeedForward and a file in blocks/; a recurrent one has an index
// of its state beside kv_layer.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"

namespace prefix {

enum class Mixer { kAttention };
enum class FeedForward { kGated };

// Where the RMS norms of a block stand; its result is added to the residual after them.
struct BlockNorms {
  bool before = true;
  bool after = false;
};

struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  BlockNorms mixer_norms;
  QkNorm qk_norm = QkNorm::kNone;
  int32_t window = 0;      // keys that a query sees, itself the last; 0: all, as every model so far
  int32_t rope_table = 0;  // of the model's tables
  int32_t kv_layer = -1;   // which layer of a page holds its keys and values; -1: it keeps a state
  FeedForward feed_forward = FeedForward::kGated;
  BlockNorms feed_forward_norms;
};

// One for each layer, in order.
std::vector<LayerSpec> resolve_layers(const ModelConfig& config, const Architecture& architecture);
// Layers that keep keys and values in a page.
int32_t kv_layers(const std::vector<LayerSpec>& layers);

}  // namespace prefix
