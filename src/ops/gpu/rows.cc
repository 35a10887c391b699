// Operations on rows, by kernels/body/rows.h.
#include "base/status.h"
#include "ops/op_gpu.h"

namespace prefix::ops {

void GpuDevice::embed(const PackedWeights& w, std::span<const int32_t> ids, float scale, float* out,
                      int64_t ld) {
  for (const int32_t id : ids) PREFIX_CHECK(id >= 0 && id < w.n);
  stage_call(ids);
  gpu::EmbedArgs a{};
  a.weights = w.data;
  a.ids = on_device(ids);
  a.out = out;
  a.k_padded = w.k_padded;
  a.k = w.k;
  a.ld = ld;
  a.scale = scale;
  a.element = element();
  launcher_.launch(gpu::Kernel::kEmbed, padded(static_cast<int64_t>(ids.size())), 1, a);
}

void GpuDevice::rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                         int64_t n, Act out) {
  gpu::NormArgs a{x, weight, out.data, ld, out.ld, n, eps, gpu::Output::kActivation, element()};
  launcher_.launch(gpu::Kernel::kNorm, padded(rows), 1, a);
}

void GpuDevice::rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps,
                             int64_t rows, int64_t n, float* out, int64_t ld_out, bool add) {
  const auto output = add ? gpu::Output::kF32Add : gpu::Output::kF32;
  gpu::NormArgs a{x, weight, out, ld, ld_out, n, eps, output, element()};
  launcher_.launch(gpu::Kernel::kNorm, padded(rows), 1, a);
}

void GpuDevice::gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n,
                            float* out, int64_t ld_out) {
  stage_call(rows);
  gpu::GatherArgs a{x, on_device(rows), out, ld, ld_out, n};
  launcher_.launch(gpu::Kernel::kGather, static_cast<int64_t>(rows.size()), 1, a);
}

void GpuDevice::convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) {
  gpu::ConvertArgs a{x, out.data, ld, out.ld, n, element()};
  launcher_.launch(gpu::Kernel::kConvert, padded(rows), 1, a);
}

void GpuDevice::qkv(const QkvArgs& args, std::span<const int32_t> positions,
                    std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool,
                    int32_t layer, Act q) {
  PREFIX_CHECK(slots.size() == positions.size());
  PREFIX_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= kv.head_dim);
  if (no_flags_.size() < positions.size()) no_flags_.assign(positions.size(), 0);
  const std::span<const int32_t> not_finite(no_flags_);
  stage_call(positions, slots, not_finite);
  gpu::QkvArguments a{};
  a.qkv = args.qkv;
  a.bias = args.bias;
  a.q_norm = args.q_norm;
  a.k_norm = args.k_norm;
  a.cos = args.cos;
  a.sin = args.sin;
  a.positions = on_device(positions);
  a.slots = reinterpret_cast<const int32_t*>(on_device(slots));
  a.not_finite = const_cast<int32_t*>(on_device(not_finite));
  a.q = q.data;
  a.ld = args.ld;
  a.ld_q = q.ld;
  a.heads = args.heads;
  a.rotary_dim = args.rotary_dim;
  a.eps = args.norm_eps;
  a.norm_whole_width = args.norm_whole_width ? 1 : 0;
  a.pages = pages(kv, pool, layer);
  const int32_t vectors = args.heads + 2 * kv.kv_heads;
  launcher_.launch(gpu::Kernel::kQkv, padded(static_cast<int64_t>(positions.size())),
                   (vectors + gpu::kQkvVectors - 1) / gpu::kQkvVectors, a);
}

}  // namespace prefix::ops
