#include "ops/gpu/downloads.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace prefix::ops::gpu {

void Downloads::run(std::span<const Download> pieces) {
  if (!pinned_ && runtime_.allocate_pinned(2 * half_bytes_, &pinned_) != Code::kOk) {
    // Slower, but there.
    pinned_ = nullptr;
    for (const Download& d : pieces)
      check(runtime_, runtime_.download(d.host, d.device, d.bytes), "download");
    return;
  }
  next_ = done_ = 0;
  start(0, pieces);
  for (int half = 0; !halves_[half].empty(); half ^= 1) {
    const uint64_t sent = uploads_.sent();
    check(runtime_, runtime_.synchronize(), "download");
    uploads_.finished(sent);
    start(half ^ 1, pieces);
    const std::vector<Download>& there = halves_[half];
    threads_.run(static_cast<int64_t>(there.size()), [&](int64_t i, int) {
      const Download& d = there[static_cast<size_t>(i)];
      std::memcpy(d.host, d.device, d.bytes);
    });
  }
}

void Downloads::start(int half, std::span<const Download> pieces) {
  auto* const begin =
      static_cast<unsigned char*>(pinned_) + static_cast<size_t>(half) * half_bytes_;
  halves_[half].clear();
  for (size_t used = 0; next_ < pieces.size() && used < half_bytes_;) {
    const Download& piece = pieces[next_];
    const size_t bytes = std::min(piece.bytes - done_, half_bytes_ - used);
    check(runtime_,
          runtime_.begin_download(begin + used,
                                  static_cast<const unsigned char*>(piece.device) + done_, bytes),
          "download");
    halves_[half].push_back({static_cast<unsigned char*>(piece.host) + done_, begin + used, bytes});
    used += bytes;
    done_ += bytes;
    if (done_ == piece.bytes) {
      ++next_;
      done_ = 0;
    }
  }
}

}  // namespace prefix::ops::gpu
