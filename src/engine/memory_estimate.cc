#include "engine/memory_estimate.h"

#include <algorithm>

#include "base/status.h"
#include "model/activations.h"
#include "ops/devices.h"
#include "ops/gpu/workspace.h"

namespace prefix {
namespace {

constexpr int64_t kGpuRows = 4096;

ops::KvLayout kv_layout_of(const ModelConfig& config, ops::DType dtype) {
  return {dtype, config.layers, config.kv_heads, config.head_dim};
}

// As Model::reserve() takes it.
int64_t gpu_activations(const ModelConfig& c, const Options& options, const ops::KvLayout& kv,
                        const ops::GpuInfo& gpu, int64_t kv_bytes) {
  const int64_t rows = row_budget(options);
  const ActivationWidths widths = activation_widths(c, ops::gpu::ActivationLayout{kv.type});
  const size_t buffers = static_cast<size_t>(activation_rows(rows)) * widths.row_bytes();
  ops::ReserveShape shape;
  shape.rows = rows;
  shape.heads = c.heads;
  shape.inner = c.intermediate;
  shape.pages = kv_bytes / static_cast<int64_t>(kv.page_bytes());
  shape.positions = context_length(options, c);
  shape.logit_rows = held_logit_rows(false);
  shape.kv = kv;
  return static_cast<int64_t>(buffers + logit_bytes(c, rows) + answer_bytes(rows) +
                              ops::gpu::workspace_for(shape, gpu.processors).bytes());
}

}  // namespace

ops::DType dtype_of(const Options& options) {
  return options.get("dtype") == "f32" ? ops::DType::kF32 : ops::DType::kBf16;
}

int64_t row_budget(const Options& options) {
  // A GPU is busy with matrix products of a few thousand rows only.
  if (!options.is_set("rows") && options.get("device") != "cpu") return kGpuRows;
  return options.get_int("rows");
}

int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t free_bytes, bool of_host) {
  const int64_t asked = options.get_int("cache_bytes");
  if (asked > 0 && asked < page_bytes)
    fail(Code::kOutOfRange, "cache_bytes is ", asked, "; one page of ", kPageTokens,
         " tokens of this model takes ", page_bytes);
  if (asked > 0) return asked;
  return std::max(of_host ? free_bytes / 4 : free_bytes / 10 * 9, 64 * page_bytes);
}

int32_t context_length(const Options& options, const ModelConfig& config) {
  const int64_t asked = options.get_int("max_positions");
  return asked > 0 ? static_cast<int32_t>(std::min<int64_t>(asked, config.max_positions))
                   : config.max_positions;
}

MemoryEstimate estimate_of(const ModelConfig& c, const Options& options) {
  MemoryEstimate e;
  const ops::DType dtype = dtype_of(options);
  const auto padded = [](int64_t n) { return (n + 31) / 32 * 32; };
  const auto matrix = [&](int64_t n, int64_t k) {
    return padded(n) * padded(k) * static_cast<int64_t>(ops::dtype_bytes(dtype));
  };
  const int64_t q = int64_t{c.heads} * c.head_dim;
  const int64_t kv = int64_t{c.kv_heads} * c.head_dim;
  e.weight_bytes =
      c.layers * (matrix(q + 2 * kv, c.hidden) + matrix(c.hidden, q) +
                  2 * matrix(c.intermediate, c.hidden) + matrix(c.hidden, c.intermediate)) +
      matrix(c.vocab_size, c.hidden) * (c.tie_embeddings ? 1 : 2) +
      int64_t{4} * context_length(options, c) * c.rotary_dim();  // rotary tables
  const ops::KvLayout layout = kv_layout_of(c, dtype);
  const auto page_bytes = static_cast<int64_t>(layout.page_bytes());
  e.kv_bytes_per_token = page_bytes / kPageTokens;
  const std::string device = options.get("device");
  if (device == "cpu") {
    e.kv_budget_bytes = kv_budget(options, page_bytes, ops::available_host_memory(), true);
    // Per row: residual, fused projection and its f32 output, activations of attention and FFN.
    const int64_t per_row = 4 * (2 * int64_t{c.hidden} + q + 2 * kv) + 4 * (c.hidden + 2 * q) +
                            4 * padded(c.intermediate);
    e.activation_bytes = options.get_int("rows") * per_row + 64 * 4 * padded(c.vocab_size);
  } else {
    // What others have of the device is not known, so the budget is the most there can be.
    const ops::GpuInfo gpu = ops::gpu_of(device);
    const int64_t rest =
        std::max<int64_t>(0, gpu.total_bytes - e.weight_bytes - ops::gpu::kProductWorkspaceBytes);
    e.activation_bytes =
        gpu_activations(c, options, layout, gpu, kv_budget(options, page_bytes, rest, false));
    e.kv_budget_bytes =
        kv_budget(options, page_bytes, std::max<int64_t>(0, rest - e.activation_bytes), false);
    e.activation_bytes += ops::gpu::kProductWorkspaceBytes;
  }
  e.total_bytes = e.weight_bytes + e.kv_budget_bytes + e.activation_bytes;
  return e;
}

}  // namespace prefix
