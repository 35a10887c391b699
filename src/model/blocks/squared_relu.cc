// The feed-forward block without a gate: down (relu (up x)^2).
#include "model/blocks/block.h"

namespace prefix {

void squared_relu_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  norm_before(pass, layer.feed_forward_norms.before, w.ffn_norm);
  multiply(pass, w.gate_up, &AdapterLayer::gate_up, w.up_bias, b.a, b.c, b.up_ld, false);
  {
    Stopwatch watch(pass.times.other_ns);
    pass.device.squared_relu(b.c, b.up_ld, pass.rows(), pass.config.intermediate, b.inner);
  }
  project_and_add(pass, w.down, &AdapterLayer::down, w.down_bias, b.inner,
                  layer.feed_forward_norms.after, w.post_ffn_norm);
}

}  // namespace prefix
