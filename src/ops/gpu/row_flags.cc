#include "ops/gpu/row_flags.h"

namespace prefix::ops::gpu {

void RowFlags::begin(size_t rows) {
  zeros_.assign(rows, 0);
  coming_ = 0;
}

void RowFlags::fetch(const int32_t* device) {
  if (coming_ > 0 || zeros_.empty()) return;
  const size_t bytes = zeros_.size() * sizeof(int32_t);
  check(runtime_, runtime_.begin_download(pinned_.reserve(bytes), device, bytes),
        "the flags of a step");
  coming_ = uploads_.add();
}

}  // namespace prefix::ops::gpu
