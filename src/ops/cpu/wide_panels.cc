#include "ops/cpu/wide_panels.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace prefix::ops {

WidePanels::WidePanels(const GemmKernels& gemm, Scratch& memory, int64_t k) : gemm_(gemm) {
  now_.data = reinterpret_cast<float*>(memory.reserve(bytes(k)));
  ahead_.data = now_.data + half_floats(k);
}

bool WidePanels::worth(const GemmKernels& gemm, int64_t rows) {
  return gemm.tile_wide != nullptr && rows >= kWideningRows;
}

void WidePanels::multiply(TileArgs tile, const Panels& next) {
  const Panels panels{tile.b0, tile.b1, tile.chunks, tile.kc};
  if (!now_.holds(panels)) {
    std::swap(now_, ahead_);
    if (!now_.holds(panels)) now_.expect(panels);
    now_.finish(gemm_);
  }
  const void* left[kBlockPages];
  const void* right[kBlockPages];
  for (int64_t chunk = 0; chunk < tile.chunks; ++chunk) {
    left[chunk] = now_.panel(chunk, 0);
    right[chunk] = now_.panel(chunk, 1);
  }
  tile.b0 = left;
  if (tile.b1 != nullptr) tile.b1 = right;
  // A tile widens two panels for each of its own two.
  const bool prepare = tile.b1 != nullptr && next.b1 != nullptr && next.chunks == tile.chunks &&
                       tile.rows >= kWideningRows && !ahead_.holds(next);
  if (prepare) {
    ahead_.expect(next);
    ahead_.k = std::min(tile.kc, next.kc);
    tile.widen0 = ahead_.left;
    tile.widen1 = ahead_.right;
    tile.widen_kc = next.kc;
    tile.wide = ahead_.data;
  }
  gemm_.tile_wide(tile);
}

bool WidePanels::Half::holds(const Panels& panels) const {
  return chunks == panels.chunks && kc == panels.kc && both == (panels.b1 != nullptr) &&
         std::equal(left, left + chunks, panels.b0) &&
         (!both || std::equal(right, right + chunks, panels.b1));
}

void WidePanels::Half::expect(const Panels& panels) {
  PREFIX_CHECK(panels.chunks <= kBlockPages);
  chunks = panels.chunks;
  kc = panels.kc;
  both = panels.b1 != nullptr;
  std::copy_n(panels.b0, chunks, left);
  if (both) std::copy_n(panels.b1, chunks, right);
  k = 0;
}

void WidePanels::Half::finish(const GemmKernels& gemm) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    gemm.widen(left[chunk], k, kc, panel(chunk, 0));
    if (both) gemm.widen(right[chunk], k, kc, panel(chunk, 1));
  }
  k = kc;
}

}  // namespace prefix::ops
