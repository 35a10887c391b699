// The forward pass: embedding, then the blocks of each layer, over the rows of one step.
#include "base/status.h"
#include "model/activation_buffers.h"
#include "model/blocks/block.h"
#include "model/model.h"

namespace prefix {

std::optional<ops::Step> Model::forward(const StepPlan& plan, KvMemory& kv,
                                        const std::function<bool()>& stop) {
  ensure_rows(plan.rows());
  reads_ = plan.reads;
  selected_ = 0;
  ActivationBuffers& b = *buffers_;
  const Pass pass{device_, config_, rotations_, plan, kv, b, times_};
  std::optional<ops::Step> step;
  {
    Stopwatch watch(times_.other_ns);
    step.emplace(device_, ops::StepArrays{plan.tokens, plan.positions, plan.rope_rows, plan.slots,
                                          plan.clear, plan.copies, reads_, &plan.attention,
                                          config_.heads, kv.layout()});
    device_.clear_pages(plan.clear, kv.layout(), kv.data());
    device_.embed(weights_.embedding, plan.tokens, 1.0f, b.x, b.x_ld);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (stop && stop()) return std::nullopt;
    const LayerSpec& layer = layers_[i];
    const LayerWeights& w = weights_.layers[i];
    switch (layer.mixer) {
      case Mixer::kAttention:
        attention_block(pass, layer, w);
    }
    switch (layer.feed_forward) {
      case FeedForward::kGated:
        gated_mlp_block(pass, layer, w);
    }
  }
  return step;
}

}  // namespace prefix
