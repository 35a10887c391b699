// What the blocks of recurrent layers have in common. Their projection has one row in c:
//
//   Mamba-2            [ z     | x, B, C | dt    ]
//   gated delta rule   [ q, k, v | z | b | a     ]
//                        convolved into `conv`; then these columns take the result of the scan
//   short convolution  [ B | C | x ]
//                        B * x is convolved into `conv`
#pragma once

#include "model/blocks/block.h"

namespace prefix {

// c = the projection of the normed residual.
inline void project_recurrent(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  norm_before(pass, layer.mixer_norms.before, w.mixer_norm);
  Stopwatch watch(pass.times.gemm_ns);
  pass.device.linear(w.mixer_in, w.mixer_in_bias.data(), b.a, pass.rows(), b.c, b.recurrent_ld,
                     false);
}

// conv = columns of c from `first` on, convolved.
inline void convolve(const Pass& pass, const LayerSpec& layer, const LayerWeights& w, int64_t first,
                     bool silu) {
  const ActivationBuffers& b = pass.buffers;
  Stopwatch watch(pass.times.attention_ns);
  ops::ConvArgs conv;
  conv.layer = layer.state_layer;
  conv.x = b.c + first;
  conv.ld = b.recurrent_ld;
  conv.weight = w.conv.data();
  conv.bias = w.conv_bias.data();
  conv.silu = silu;
  conv.out = b.conv;
  conv.ld_out = b.conv_ld;
  pass.step.conv(conv);
}

// Residual += the output projection of the result of the scan, y, normed and gated by z.
inline void norm_and_add(const Pass& pass, const LayerSpec& layer, const LayerWeights& w,
                         ops::Device::GatedNormArgs norm) {
  const ActivationBuffers& b = pass.buffers;
  {
    Stopwatch watch(pass.times.other_ns);
    norm.ld_y = norm.ld_z = b.recurrent_ld;
    norm.weight = w.gated_norm.data();
    norm.eps = pass.config.norm_eps;
    pass.device.gated_norm(norm, pass.rows(), b.mixed);
  }
  project_and_add(pass, w.mixer_out, &AdapterLayer::mixer_out, w.mixer_out_bias, b.mixed,
                  layer.mixer_norms.after, w.post_mixer_norm);
}

}  // namespace prefix
