#include "model/load/expert_rows.h"

#include <utility>

#include "base/status.h"

namespace prefix {

ExpertRows::ExpertRows(const Tensor& tensor, int64_t expert, int64_t first, int64_t step,
                       std::shared_ptr<Strips> strips)
    : tensor_(tensor), expert_(tensor), first_(first), step_(step), strips_(std::move(strips)) {
  PREFIX_CHECK(tensor.shape.size() == 3 && expert < tensor.shape[0]);
  if (!strips_) {
    first_ += expert * tensor.shape[1];
    return;
  }
  PREFIX_CHECK(!tensor.computed && block_values(tensor.type) == 1);
  expert_.shape.erase(expert_.shape.begin());
  expert_.bytes = tensor.bytes / static_cast<size_t>(tensor.shape[0]);
  expert_.offset += static_cast<uint64_t>(expert) * expert_.bytes;
}

void ExpertRows::read(int64_t row, std::byte* out) const {
  const int64_t at = first_ + row * step_;
  if (strips_)
    strips_->column(expert_, at, out);
  else
    read_blocks(expert_, at, out);
}

void ExpertRows::read_kept(int64_t row, std::byte* out) const {
  if (strips_) return read(row, out);
  read_kept_row(expert_, first_ + row * step_, out);
}

}  // namespace prefix
