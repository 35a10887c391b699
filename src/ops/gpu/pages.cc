// Pages of keys and values: where they lie, cleared and copied.
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/gpu/step.h"

namespace prefix::ops::gpu {

Pages GpuStep::pages(int32_t layer) const {
  const KvLayout& kv = arrays_.kv;
  PREFIX_CHECK(kv.type == context_.options.types.kv);
  auto* const pool = reinterpret_cast<unsigned char*>(arrays_.pool);
  return {pool + static_cast<size_t>(layer) * kv.layer_bytes(),
          static_cast<int64_t>(kv.page_bytes()),
          static_cast<int64_t>(kv.block_bytes()),
          kv.kv_heads,
          kv.head_dim,
          static_cast<int32_t>(kv.d_padded()),
          context_.element()};
}

void GpuStep::clear_pages() {
  const ClearPagesArgs a{context_.step_arrays.at(clear_),
                         reinterpret_cast<unsigned char*>(arrays_.pool),
                         static_cast<int64_t>(arrays_.kv.page_bytes())};
  launch(*context_.runtime, Kernel::kClearPages, static_cast<int64_t>(arrays_.clear.size()),
         kClearBlocks, a);
}

// Copies that wait for one another go into different launches (waves): a copy comes after every
// earlier one that wrote its source, or read or wrote its target.
std::vector<PageCopy> GpuStep::ordered_copies() {
  const std::span<const PageCopy> copies = arrays_.copies;
  std::unordered_map<int32_t, int32_t> written, read;  // page -> waves up to the last one that did
  std::vector<std::pair<int32_t, size_t>> order;
  for (size_t i = 0; i < copies.size(); ++i) {
    const PageCopy& c = copies[i];
    const int32_t wave = std::max({written[c.from], written[c.to], read[c.to]});
    written[c.to] = wave + 1;
    read[c.from] = std::max(wave + 1, read[c.from]);
    order.emplace_back(wave, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<PageCopy> ordered;
  for (size_t i = 0; i < order.size(); ++i) {
    ordered.push_back(copies[order[i].second]);
    if (i + 1 == order.size() || order[i + 1].first != order[i].first)
      copy_launches_.push_back(static_cast<int32_t>(i) + 1);
  }
  return ordered;
}

void GpuStep::copy_pages(int32_t layer) {
  const auto* const list = reinterpret_cast<const int32_t*>(context_.step_arrays.at(copies_));
  int32_t begin = 0;
  for (const int32_t end : copy_launches_) {
    const CopyPagesArgs a{list + 3 * begin, pages(layer)};
    launch(*context_.runtime, Kernel::kCopyPages, end - begin, arrays_.kv.kv_heads, a);
    begin = end;
  }
}

}  // namespace prefix::ops::gpu
