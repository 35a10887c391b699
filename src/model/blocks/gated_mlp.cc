// The gated feed-forward block: down (act (gate x) * (up x)).
#include "model/blocks/block.h"

namespace prefix {

void gated_mlp_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  norm_before(pass, layer.feed_forward_norms.before, w.ffn_norm);
  gated_mlp(pass, layer, w);
}

void gated_mlp(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  {
    Stopwatch watch(pass.times.gemm_ns);
    const ops::Device::LowRankArgs& more = adapted(pass, &AdapterLayer::gate_up);
    if (more.rows.empty())
      pass.device.linear_gated(w.gate_up, pass.config.intermediate, w.gate_bias.data(),
                               w.up_bias.data(), pass.config.activation, b.a, pass.rows(), b.inner);
    else
      pass.device.linear_gated_adapted(w.gate_up, pass.config.intermediate, w.gate_bias.data(),
                                       w.up_bias.data(), pass.config.activation, more, b.a,
                                       pass.rows(), b.inner);
  }
  project_and_add(pass, w.down, &AdapterLayer::down, w.down_bias, b.inner,
                  layer.feed_forward_norms.after, w.post_ffn_norm);
}

}  // namespace prefix
