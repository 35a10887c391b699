// Many pieces of device memory, such as pages that leave for a disk, on their way to memory of the
// host that is not pinned.
//
//   device   page 7   page 3   page 9   page 4 ...
//              │ asynchronous copies, one wait for all in a half
//   pinned   [ 7 | 3 | 9 .. ]  [ .. 9 | 4 | .. ]     two halves: the device fills one while threads
//              │ memcpy, a piece a thread            of the host empty the other
//   host     wherever each piece is wanted
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/threads.h"
#include "ops/gpu/staging.h"
#include "ops/op.h"

namespace prefix::ops::gpu {

// Not thread-safe.
class Downloads {
 public:
  // A GPU fills it in about half a millisecond.
  static constexpr size_t kHalfBytes = size_t{32} << 20;

  Downloads(Runtime& runtime, Uploads& uploads, Threads& threads, size_t half_bytes = kHalfBytes)
      : runtime_(runtime), uploads_(uploads), threads_(threads), half_bytes_(half_bytes) {}
  ~Downloads() { runtime_.release_pinned(pinned_); }
  Downloads(const Downloads&) = delete;
  Downloads& operator=(const Downloads&) = delete;

  // Pinned memory is taken by the first call.
  void run(std::span<const Download> pieces);

 private:
  // Fills a half from pieces[next_] on.
  void start(int half, std::span<const Download> pieces);

  Runtime& runtime_;
  Uploads& uploads_;
  Threads& threads_;
  size_t half_bytes_;
  void* pinned_ = nullptr;
  std::vector<Download> halves_[2];  // from pinned memory to the host
  size_t next_ = 0;                  // piece
  size_t done_ = 0;                  // bytes of it
};

}  // namespace prefix::ops::gpu
