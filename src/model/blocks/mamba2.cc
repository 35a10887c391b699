// Mamba-2: a state of each head that decays by the token and takes x (outer) B; y = S C + D x.
#include "model/blocks/recurrence.h"

namespace prefix {

void mamba2_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  const RecurrentConfig& r = pass.config.recurrent;
  const float* const z = b.c;
  float* const xbc = b.c + r.inner();
  project_recurrent(pass, layer, w);
  convolve(pass, layer, w, r.inner(), true);
  {
    Stopwatch watch(pass.times.attention_ns);
    ops::Mamba2Args scan;
    scan.layer = layer.state_layer;
    scan.heads = r.heads;
    scan.head_dim = r.head_dim;
    scan.groups = r.groups;
    scan.state = r.state;
    scan.x = b.conv;
    scan.ld = b.conv_ld;
    scan.dt = xbc + r.conv_channels();
    scan.ld_dt = b.recurrent_ld;
    scan.dt_bias = w.dt_bias.data();
    scan.a = w.a.data();
    scan.d = w.d.data();
    scan.dt_min = r.dt_min;
    scan.dt_max = r.dt_max;
    scan.y = xbc;
    scan.ld_y = b.recurrent_ld;
    pass.step.scan(scan);
  }
  ops::Device::GatedNormArgs norm;
  norm.y = xbc;
  norm.z = z;
  norm.gate_first = true;
  norm.heads = r.groups;
  norm.n = r.inner() / r.groups;
  norm_and_add(pass, layer, w, norm);
}

}  // namespace prefix
