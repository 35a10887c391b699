#include "engine/memory_estimate.h"

#include <algorithm>

#include "base/status.h"
#include "ops/devices.h"

namespace prefix {
namespace {

ops::KvLayout kv_layout_of(const ModelConfig& config, ops::DType dtype) {
  return {dtype, config.layers, config.kv_heads, config.head_dim};
}

}  // namespace

ops::DType dtype_of(const Options& options) {
  return options.get("dtype") == "f32" ? ops::DType::kF32 : ops::DType::kBf16;
}

int64_t kv_budget(const Options& options, int64_t page_bytes, int64_t free_bytes) {
  const int64_t asked = options.get_int("cache_bytes");
  if (asked > 0 && asked < page_bytes)
    fail(Code::kOutOfRange, "cache_bytes is ", asked, "; one page of ", kPageTokens,
         " tokens of this model takes ", page_bytes);
  return asked > 0 ? asked : std::max(free_bytes / 4, 64 * page_bytes);
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
  e.kv_bytes_per_token = static_cast<int64_t>(layout.page_bytes()) / kPageTokens;
  e.kv_budget_bytes =
      kv_budget(options, static_cast<int64_t>(layout.page_bytes()), ops::available_host_memory());
  // Per row: residual, fused projection and its f32 output, activations of attention and FFN.
  const int64_t per_row = 4 * (2 * int64_t{c.hidden} + q + 2 * kv) + 4 * (c.hidden + 2 * q) +
                          4 * padded(c.intermediate);
  e.activation_bytes = options.get_int("rows") * per_row + 64 * 4 * padded(c.vocab_size);
  e.total_bytes = e.weight_bytes + e.kv_budget_bytes + e.activation_bytes;
  return e;
}

}  // namespace prefix
