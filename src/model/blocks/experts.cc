// The feed-forward block of routed experts: a router scores them for each row, and the row gets the
// sum of the best ones' results, weighted by the softmax of their scores (Shazeer et al. 2017).
// Beside them may stand a gated block that every row uses.
#include "model/blocks/block.h"

namespace prefix {

void experts_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  const ExpertConfig& config = pass.config.experts;
  norm_before(pass, layer.feed_forward_norms.before, w.ffn_norm);
  {
    Stopwatch watch(pass.times.gemm_ns);
    pass.device.linear(w.router, w.router_bias.data(), b.a, pass.rows(), b.c, b.router_ld, false);
  }
  {
    Stopwatch watch(pass.times.other_ns);
    ops::Device::RouteArgs args;
    args.scores = b.c;
    args.ld = b.router_ld;
    args.experts = config.count;
    args.per_row = config.per_token;
    args.normalized = config.normalized;
    pass.device.route(args, pass.rows(), pass.buffers.slots);
  }
  {
    Stopwatch watch(pass.times.gemm_ns);
    ops::Device::ExpertsArgs args;
    args.experts = w.experts;
    args.hidden = pass.config.hidden;
    args.intermediate = config.intermediate;
    args.fn = pass.config.activation;
    args.x = b.a;
    args.gathered = b.expert_in;
    args.inner = b.expert_inner;
    args.results = b.expert_out;
    args.ld_results = b.x_ld;
    args.out = b.x;
    args.ld_out = b.x_ld;
    pass.device.experts(args, pass.buffers.slots);
  }
  if (layer.shared) gated_mlp(pass, layer, w);
}

}  // namespace prefix
