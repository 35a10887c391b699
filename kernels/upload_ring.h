// Uploads from memory that the GPU cannot read by itself: through pinned pieces that take turns.
//
//   source   [ piece 0 | piece 1 | piece 2 | piece 3 ... ]   free again when upload() returns
//                 │ memcpy
//   ring     [ slot 0 | slot 1 ]                             pinned
//                 │ asynchronous copies; a slot is written again when its last copy has ended
//   device   [ piece 0 | piece 1 | piece 2 | piece 3 ... ]
//
// The driver could do this too, but may read the source after its call has returned, on machines
// where the GPU reaches all memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/status.h"

namespace prefix::ops::gpu {

// Stream: Code copy(void* device, const void* pinned, size_t bytes), which returns at once;
//         Code mark(int slot): what was copied so far;
//         Code wait(int slot): until what was marked has ended.
template <class Stream>
class UploadRing {
 public:
  static constexpr int kSlots = 4;

  UploadRing(unsigned char* pinned, size_t slot_bytes) : pinned_(pinned), bytes_(slot_bytes) {}

  Code upload(Stream& stream, void* device, const void* host, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      const size_t piece = std::min(bytes_, bytes - done);
      unsigned char* const slot = pinned_ + static_cast<size_t>(next_) * bytes_;
      if (busy_[next_])
        if (const Code code = stream.wait(next_); code != Code::kOk) return code;
      std::memcpy(slot, static_cast<const unsigned char*>(host) + done, piece);
      busy_[next_] = true;
      Code code = stream.copy(static_cast<unsigned char*>(device) + done, slot, piece);
      if (code == Code::kOk) code = stream.mark(next_);
      if (code != Code::kOk) return code;
      next_ = (next_ + 1) % kSlots;
      done += piece;
    }
    return Code::kOk;
  }

 private:
  unsigned char* pinned_;
  size_t bytes_;  // of a slot
  int next_ = 0;
  bool busy_[kSlots] = {};
};

}  // namespace prefix::ops::gpu
