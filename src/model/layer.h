// What the layers of a model do, one by one: the configuration and the architecture, resolved.
//
//             before                                   after
//   x ─┬─ norm? ── mixer ( attention, or ────────── norm? ─(+)─> x     KV of the layer: kv_layer
//      │                   a recurrence )                  │           or its state: state_layer
//      └───────────────────────────────────────────────────┘
//   x ─┬─ norm? ── feed-forward ─────────────────── norm? ─(+)─> x
//      └───────────────────────────────────────────────────┘
//
// Of some models a layer is one of the two blocks only: the other is kNone.
//
// The forward pass asks nothing else about a model. A layer of another kind is a
// value of Mixer or FeedForward and a file in blocks/.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "model/config/config.h"

namespace prefix {

// Where the RMS norms of a block stand; its result is added to the residual after them.
struct BlockNorms {
  bool before = true;
  bool after = false;
};

struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  BlockNorms mixer_norms;
  QkNorm qk_norm = QkNorm::kNone;
  int32_t window = 0;          // keys that a query sees, its own the last; 0: all
  int32_t attention_plan = 0;  // of a step's, which has one for each of attention_windows()
  int32_t rope_table = 0;      // of the model's tables; -1: the layer does not rotate
  int32_t kv_layer = -1;       // which layer of a page holds its keys and values; -1: it has none
  int32_t state_layer = -1;    // which layer of a state is its own; -1: it has none
  FeedForward feed_forward = FeedForward::kGated;
  bool shared = false;  // a gated block beside the experts
  BlockNorms feed_forward_norms;
};

// One for each layer, in order.
std::vector<LayerSpec> resolve_layers(const ModelConfig& config, const Architecture& architecture);
// The last one that reads other rows; what follows it goes on row by row. -1: there is none.
int64_t last_mixer(const std::vector<LayerSpec>& layers);
// The windows that layers of attention have, each once.
std::vector<int32_t> attention_windows(const std::vector<LayerSpec>& layers);
// Layers that keep keys and values in a page.
int32_t kv_layers(const std::vector<LayerSpec>& layers);

}  // namespace prefix
