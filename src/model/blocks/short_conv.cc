// A gated short convolution: out (C * conv (B * x)). Its state is the last inputs of the filters.
#include "model/blocks/recurrence.h"

namespace prefix {

void short_conv_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  const int64_t n = pass.config.recurrent.inner();
  float* const before = b.c;  // takes B * x
  const float* const after = before + n;
  const float* const x = after + n;
  project_recurrent(pass, layer, w);
  {
    Stopwatch watch(pass.times.other_ns);
    pass.device.multiply(x, b.recurrent_ld, pass.rows(), n, before, b.recurrent_ld);
  }
  convolve(pass, layer, w, 0, false);
  {
    Stopwatch watch(pass.times.other_ns);
    pass.device.multiply(after, b.recurrent_ld, pass.rows(), n, b.conv, b.conv_ld);
    pass.device.convert(b.conv, b.conv_ld, pass.rows(), n, b.mixed);
  }
  project_and_add(pass, w.mixer_out, &AdapterLayer::mixer_out, w.mixer_out_bias, b.mixed,
                  layer.mixer_norms.after, w.post_mixer_norm);
}

}  // namespace prefix
