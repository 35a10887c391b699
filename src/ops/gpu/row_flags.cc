#include "ops/gpu/row_flags.h"

namespace prefix::ops::gpu {

void RowFlags::reserve(size_t rows) {
  if (rows <= room_) return;
  runtime_.release_pinned(pinned_);
  pinned_ = nullptr;
  room_ = 0;
  void* data = nullptr;
  check(runtime_, runtime_.allocate_pinned(rows * sizeof(int32_t), &data), "pinned memory");
  pinned_ = static_cast<int32_t*>(data);
  room_ = rows;
}

void RowFlags::begin(size_t rows) {
  zeros_.assign(rows, 0);
  coming_ = 0;
}

void RowFlags::fetch(const int32_t* device) {
  if (coming_ > 0 || zeros_.empty()) return;
  reserve(zeros_.size());
  check(runtime_, runtime_.begin_download(pinned_, device, zeros_.size() * sizeof(int32_t)),
        "the flags of a step");
  coming_ = uploads_.add();
}

}  // namespace prefix::ops::gpu
