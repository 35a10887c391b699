#include "ops/gpu/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace prefix::ops::gpu {

unsigned char* Buffer::reserve(size_t bytes) {
  if (bytes > bytes_) {
    const size_t wanted = std::max(bytes, 2 * bytes_);
    release();  // waits for what may still use it
    data_ = nullptr;
    bytes_ = 0;
    if (pinned_) {
      check(runtime_, runtime_.allocate_pinned(wanted, &data_), "pinned memory for a step");
    } else {
      check(runtime_, runtime_.allocate(wanted, &data_), "device memory for a step");
    }
    bytes_ = wanted;
  }
  return static_cast<unsigned char*>(data_);
}

size_t Staging::room(size_t bytes) {
  return bytes == 0 ? 0 : std::bit_ceil(std::max<size_t>(bytes, 256));
}

void Staging::begin() {
  if (!uploads_.done(upload_)) {
    const uint64_t sent = uploads_.sent();
    check(runtime_, runtime_.synchronize(), "the step before");
    uploads_.finished(sent);
  }
  entries_.clear();
  used_ = 0;
  base_ = nullptr;
}

int32_t Staging::place(const void* data, size_t bytes, size_t padded, unsigned char fill) {
  if (bytes == 0) return -1;
  entries_.push_back({data, bytes, padded, fill, used_});
  used_ += room(padded);
  return static_cast<int32_t>(entries_.size()) - 1;
}

const void* Staging::address(int32_t entry) const {
  PREFIX_CHECK(base_ && static_cast<size_t>(entry) < entries_.size());
  return base_ + entries_[static_cast<size_t>(entry)].offset;
}

void Staging::send() {
  if (used_ == 0) return;
  unsigned char *const pinned = pinned_.reserve(used_), *const device = device_.reserve(used_);
  for (const Entry& e : entries_) {
    unsigned char* const to = pinned + e.offset;
    std::memcpy(to, e.host, e.bytes);
    std::memset(to + e.bytes, e.fill, e.padded - e.bytes);
  }
  const Entry& last = entries_.back();
  check(runtime_, runtime_.upload(device, pinned, last.offset + last.padded),
        "the upload of a step");
  upload_ = uploads_.add();
  base_ = device;
}

}  // namespace prefix::ops::gpu
