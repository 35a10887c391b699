// Pages of keys and values: where they lie, cleared and copied.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "ops/op_gpu.h"

namespace prefix::ops {

gpu::Pages GpuDevice::pages(const KvLayout& kv, const std::byte* pool, int32_t layer) const {
  PREFIX_CHECK(kv.type == options_.types.kv);
  gpu::Pages p{};
  p.layer = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(pool)) +
            static_cast<size_t>(layer) * kv.layer_bytes();
  p.page_stride = static_cast<int64_t>(kv.page_bytes());
  p.block_bytes = static_cast<int64_t>(kv.block_bytes());
  p.kv_heads = kv.kv_heads;
  p.head_dim = kv.head_dim;
  p.d_padded = static_cast<int32_t>(kv.d_padded());
  p.element = element();
  return p;
}

void GpuDevice::clear_pages(std::span<const int32_t> list, const KvLayout& kv, std::byte* pool) {
  for (size_t at = 0; at < list.size(); at += gpu::kMostCleared) {
    const std::span<const int32_t> piece =
        list.subspan(at, std::min(gpu::kMostCleared, list.size() - at));
    stage_call(piece);
    gpu::ClearArgs a{on_device(piece), reinterpret_cast<unsigned char*>(pool),
                     static_cast<int64_t>(kv.page_bytes())};
    launcher_.launch(gpu::Kernel::kClearPages, static_cast<int64_t>(piece.size()),
                     gpu::kClearBlocks, a);
  }
}

// Copies that wait for one another go into different launches (waves): a copy comes after every
// earlier one that wrote its source, or read or wrote its target.
void GpuDevice::order_copies(std::span<const PageCopy> copies) {
  std::unordered_map<int32_t, int32_t> written, read;  // page -> last wave that did
  std::vector<std::pair<int32_t, size_t>> order;
  const auto wave_of = [](const std::unordered_map<int32_t, int32_t>& map, int32_t page) {
    const auto found = map.find(page);
    return found == map.end() ? -1 : found->second;
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    const PageCopy& c = copies[i];
    const int32_t wave =
        1 + std::max({wave_of(written, c.from), wave_of(written, c.to), wave_of(read, c.to)});
    written[c.to] = std::max(wave, wave_of(written, c.to));
    read[c.from] = std::max(wave, wave_of(read, c.from));
    order.emplace_back(wave, i);
  }
  std::sort(order.begin(), order.end());
  copies_.clear();
  waves_.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    copies_.push_back(copies[order[i].second]);
    if (i + 1 == order.size() || order[i + 1].first != order[i].first)
      waves_.push_back(static_cast<int32_t>(i) + 1);
  }
  ordered_ = copies.data();
}

void GpuDevice::copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                           int32_t layer) {
  if (copies.empty()) return;
  if (ordered_ != copies.data() || !step_.find(copies_.data())) {
    order_copies(copies);
    stage_call(std::span<const PageCopy>(copies_));
    ordered_ = nullptr;
  }
  const auto* const list =
      reinterpret_cast<const int32_t*>(on_device(std::span<const PageCopy>(copies_)));
  int32_t begin = 0;
  for (const int32_t end : waves_) {
    gpu::CopyArgs a{list + 3 * begin, pages(kv, pool, layer)};
    launcher_.launch(gpu::Kernel::kCopyPages, end - begin, kv.kv_heads, a);
    begin = end;
  }
}

}  // namespace prefix::ops
