#include "ops/gpu/staging.h"

#include <algorithm>
#include <cstring>

namespace prefix::ops::gpu {

void check(Runtime& runtime, Code code, const char* what) {
  if (code != Code::kOk) fail(code, what, ": ", runtime.error());
}

unsigned char* Buffer::reserve(size_t bytes) {
  if (bytes > bytes_) {
    runtime_.release(data_);
    data_ = nullptr;
    bytes_ = 0;
    const size_t wanted = bytes + bytes / 4;
    check(runtime_, runtime_.allocate(wanted, &data_), "device memory for a step");
    bytes_ = wanted;
  }
  return static_cast<unsigned char*>(data_);
}

void Staging::begin() {
  if (in_flight_) check(runtime_, runtime_.synchronize(), "the step before");
  in_flight_ = false;
  entries_.clear();
  used_ = 0;
  base_ = nullptr;
}

void Staging::place(const void* data, size_t bytes) {
  if (bytes == 0) return;
  entries_.push_back({data, bytes, used_});
  used_ += (bytes + 15) / 16 * 16;
}

void Staging::send() {
  if (used_ == 0) return;
  if (used_ > pinned_bytes_) {
    runtime_.release_pinned(pinned_);
    pinned_ = nullptr;
    pinned_bytes_ = 0;
    const size_t wanted = used_ + used_ / 2;
    check(runtime_, runtime_.allocate_pinned(wanted, &pinned_), "pinned memory for a step");
    pinned_bytes_ = wanted;
  }
  for (const Entry& e : entries_)
    std::memcpy(static_cast<unsigned char*>(pinned_) + e.offset, e.host, e.bytes);
  unsigned char* const device = device_.reserve(used_);
  check(runtime_, runtime_.upload(device, pinned_, used_), "the upload of a step");
  base_ = device;
  in_flight_ = true;
}

const void* Staging::find_bytes(const void* host) const {
  if (!base_) return nullptr;
  for (const Entry& e : entries_)
    if (e.host == host) return base_ + e.offset;
  return nullptr;
}

}  // namespace prefix::ops::gpu
