// Operations on rows, by kernels/body/rows.h.
#include "base/status.h"
#include "ops/gpu/step.h"
#include "ops/op_gpu.h"

namespace prefix::ops {
namespace gpu {

void GpuStep::embed(const PackedWeights& w, float scale, float* out, int64_t ld) {
  for (const int32_t id : arrays_.tokens) PREFIX_CHECK(id >= 0 && id < w.n);
  const CopyRowsArgs a{w.data,       context_.step_arrays.at(tokens_),
                       out,          w.k_padded,
                       ld,           w.k,
                       scale,        context_.element(),
                       Element::kF32};
  launch(*context_.runtime, Kernel::kCopyRows, rows_, 1, a);
}

void GpuStep::gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) {
  const CopyRowsArgs a{x, selected_, out, ld, ld_out, n, 1, Element::kF32, Element::kF32};
  launch(*context_.runtime, Kernel::kCopyRows, static_cast<int64_t>(heads_.rows.size()), 1, a);
}

void GpuStep::qkv(const QkvArgs& args) {
  const KvLayout& kv = arrays_.kv;
  PREFIX_CHECK(arrays_.slots.size() == arrays_.rope_rows.size());
  PREFIX_CHECK(arrays_.slots.size() == arrays_.tokens.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= kv.head_dim);
  const Staging& staged = context_.step_arrays;
  QkvKernelArgs a{};
  a.qkv = args.qkv;
  a.bias = args.bias;
  a.q_norm = args.q_norm;
  a.k_norm = args.k_norm;
  a.cos = args.cos;
  a.sin = args.sin;
  a.positions = staged.at(rope_rows_);
  a.slots = reinterpret_cast<const int32_t*>(staged.at(slots_));
  a.not_finite = const_cast<int32_t*>(staged.at(not_finite_));
  a.q = args.q.data;
  a.ld = args.ld;
  a.ld_q = args.q.ld;
  a.heads = arrays_.heads;
  a.rotary_dim = args.rotary_dim;
  a.eps = args.norm_eps;
  a.norm_whole_width = args.norm_whole_width ? 1 : 0;
  a.pages = pages(args.layer);
  const int32_t vectors = arrays_.heads + 2 * kv.kv_heads;
  launch(*context_.runtime, Kernel::kQkv, rows_, (vectors + kQkvVectors - 1) / kQkvVectors, a);
}

}  // namespace gpu

void GpuDevice::rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                         int64_t n, ActivationBuffer out) {
  gpu::RmsNormArgs a{
      x, weight, out.data, ld, out.ld, n, eps, gpu::Output::kActivation, context_.element()};
  gpu::launch(*context_.runtime, gpu::Kernel::kRmsNorm, rows, 1, a);
}

void GpuDevice::rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                             int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  const auto output = add ? gpu::Output::kF32Add : gpu::Output::kF32;
  gpu::RmsNormArgs a{x, weight, out, ld, ld_out, n, eps, output, context_.element()};
  gpu::launch(*context_.runtime, gpu::Kernel::kRmsNorm, rows, 1, a);
}

void GpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, ActivationBuffer out) {
  const gpu::CopyRowsArgs a{
      x, nullptr, out.data, ld, out.ld, n, 1, gpu::Element::kF32, context_.element()};
  gpu::launch(*context_.runtime, gpu::Kernel::kCopyRows, rows, 1, a);
}

}  // namespace prefix::ops
