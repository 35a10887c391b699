// The gated delta rule: a state of each value head, a map from keys to values, that decays by the
// token and is corrected where it is wrong about the token's own key; y = q S.
#include "model/blocks/recurrence.h"

namespace prefix {

void gated_delta_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  const RecurrentConfig& r = pass.config.recurrent;
  float* const qkv = b.c;
  const float* const z = qkv + r.conv_channels();
  project_recurrent(pass, layer, w);
  convolve(pass, layer, w, 0, true);
  {
    Stopwatch watch(pass.times.attention_ns);
    ops::GatedDeltaArgs scan;
    scan.layer = layer.state_layer;
    scan.key_heads = r.groups;
    scan.value_heads = r.heads;
    scan.key_dim = r.state;
    scan.value_dim = r.head_dim;
    scan.qkv = b.conv;
    scan.ld = b.conv_ld;
    scan.b = z + r.inner();
    scan.a = scan.b + r.heads;
    scan.ld_ab = b.recurrent_ld;
    scan.a_scale = w.a.data();
    scan.dt_bias = w.dt_bias.data();
    scan.y = qkv;
    scan.ld_y = b.recurrent_ld;
    pass.step.scan(scan);
  }
  ops::Device::GatedNormArgs norm;
  norm.y = qkv;
  norm.z = z;
  norm.shared_weight = true;
  norm.heads = r.heads;
  norm.n = r.head_dim;
  norm_and_add(pass, layer, w, norm);
}

}  // namespace prefix
