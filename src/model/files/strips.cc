#include "model/files/strips.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace prefix {
namespace {

// One element of `Bytes` of each row.
template <size_t Bytes>
void gather(const std::byte* from, size_t step, int64_t rows, std::byte* out) {
  for (int64_t row = 0; row < rows; ++row, from += step, out += Bytes)
    std::memcpy(out, from, Bytes);
}

}  // namespace

void Strips::column(const Tensor& tensor, int64_t column, std::byte* out) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  PREFIX_CHECK(column >= 0 && column < columns);
  if (rows == 0) return;
  const auto each = static_cast<size_t>(block_bytes(tensor.type));
  const int64_t fit = kBytes / std::max<int64_t>(1, rows * static_cast<int64_t>(each));
  const int64_t width = std::clamp<int64_t>(fit, 1, columns);
  const int64_t first = column / width * width;
  const auto strip = strip_of(tensor, first, std::min(width, columns - first));
  const std::byte* const from = strip->bytes.data() + static_cast<size_t>(column - first) * each;
  const size_t step = static_cast<size_t>(strip->columns) * each;
  switch (each) {
    case 1:
      return gather<1>(from, step, rows, out);
    case 2:
      return gather<2>(from, step, rows, out);
    case 4:
      return gather<4>(from, step, rows, out);
    default:
      return gather<8>(from, step, rows, out);
  }
}

std::shared_ptr<const Strips::Strip> Strips::strip_of(const Tensor& tensor, int64_t first,
                                                      int64_t columns) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const auto& strip) {
    return strip->file == tensor.file && strip->offset == tensor.offset && strip->first == first;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  auto strip = std::make_shared<Strip>();
  strip->file = tensor.file;
  strip->offset = tensor.offset;
  strip->first = first;
  strip->columns = columns;
  const auto each = static_cast<uint64_t>(block_bytes(tensor.type));
  const uint64_t bytes = static_cast<uint64_t>(columns) * each;
  const auto rows = static_cast<uint64_t>(tensor.shape[0]);
  const uint64_t row_bytes = static_cast<uint64_t>(tensor.shape[1]) * each;
  strip->bytes.resize(rows * bytes);
  uint64_t at = tensor.offset + static_cast<uint64_t>(first) * each;
  if (bytes == row_bytes) {
    tensor.file->read(at, strip->bytes.size(), strip->bytes.data());
  } else {
    for (uint64_t row = 0; row < rows; ++row, at += row_bytes)
      tensor.file->read(at, bytes, strip->bytes.data() + row * bytes);
  }
  kept_.push_front(std::move(strip));
  if (kept_.size() > kKept) kept_.pop_back();
  return kept_.front();
}

}  // namespace prefix
