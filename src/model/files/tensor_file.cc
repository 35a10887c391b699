#include "model/files/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "base/thread_value.h"
#include "ops/dequant.h"

namespace prefix {

namespace {

// A piece of a file.
struct Window {
  static constexpr size_t kBytes = 32768;
  static constexpr int64_t kRows = 32;

  uint64_t file = 0;  // its id
  uint64_t begin = 0;
  size_t size = 0;
  uint64_t used = 0;
  std::byte bytes[kBytes];

  bool has(const InputFile& from, uint64_t at, size_t count) const {
    return file == from.id() && at >= begin && at + count <= begin + size;
  }
};

// What a thread read last: the rows of a panel are asked for one after the other, and a call of the
// system for each of them would take as long as the copy. A row may be made of as many tensors.
struct Windows {
  Window windows[4];
  uint64_t uses = 0;

  // `count` bytes at `at`, which are there until the next call. `ahead` are read when they are not
  // here yet.
  const std::byte* get(const InputFile& from, uint64_t at, size_t count, size_t ahead) {
    Window* window =
        std::ranges::find_if(windows, [&](const Window& one) { return one.has(from, at, count); });
    if (window == std::end(windows)) {
      window = std::ranges::min_element(windows, {}, &Window::used);
      window->size = 0;  // should the read fail
      from.read(at, ahead, window->bytes);
      window->file = from.id();
      window->begin = at;
      window->size = ahead;
    }
    window->used = ++uses;
    return window->bytes + (at - window->begin);
  }
};

// Not in the thread itself: the system makes room for that in every thread of a program that is
// linked with this library, and small stacks have none.
Windows& windows_of_thread() {
  static ThreadValue<Windows> windows;
  return windows.get();
}

// Calls take(blocks, done, count) for the values [done, done + count) of a row, in order, in pieces
// of whole blocks.
template <typename Take>
void for_each_piece(const Tensor& tensor, int64_t row, const Take& take) {
  PREFIX_CHECK(tensor.type != TensorType::kUnread);
  const int64_t values = tensor.row_values();
  const int64_t row_bytes = blocks_bytes(tensor.type, values);
  if (row_bytes == 0) return;
  PREFIX_CHECK(row >= 0 && row < static_cast<int64_t>(tensor.bytes) / row_bytes);
  const int64_t per_block = block_values(tensor.type);
  const int64_t each =
      std::min(values, static_cast<int64_t>(Window::kBytes) / block_bytes(tensor.type) * per_block);
  uint64_t at = tensor.offset + static_cast<uint64_t>(row * row_bytes);
  const uint64_t end =
      std::min(tensor.offset + tensor.bytes, at + static_cast<uint64_t>(Window::kRows * row_bytes));
  Windows& windows = windows_of_thread();
  for (int64_t done = 0; done < values; done += each) {
    const int64_t count = std::min(each, values - done);
    const auto bytes = static_cast<size_t>(blocks_bytes(tensor.type, count));
    const size_t window_bytes = std::min<uint64_t>(Window::kBytes, end - at);
    take(windows.get(*tensor.file, at, bytes, window_bytes), done, count);
    at += bytes;
  }
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t element_count(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) {
    if (d < 0 || d > kMaxTensorValues || (d > 0 && n > kMaxTensorValues / d))
      fail(Code::kFormat, "tensor ", quote(name), " has the shape ", shape_text(shape),
           "; a tensor may have at most ", kMaxTensorValues, " values");
    n *= d;
  }
  return n;
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const Tensor& t : tensors_) names.push_back(t.name);
  return names;
}

void TensorSource::check_files() const {
  for (const auto& file : files_) file->check_unchanged();
}

void TensorSource::add(std::shared_ptr<const InputFile> file, std::vector<Tensor> tensors) {
  for (Tensor& t : tensors) {
    if (!by_name_.emplace(t.name, tensors_.size()).second)
      fail(Code::kFormat, file->name(), ": tensor ", quote(t.name), " occurs twice");
    tensors_.push_back(std::move(t));
  }
  files_.push_back(std::move(file));
}

void TensorSource::replace(std::vector<Tensor> tensors) {
  by_name_.clear();
  tensors_ = std::move(tensors);
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!by_name_.emplace(tensors_[i].name, i).second)
      fail(Code::kFormat, "tensor ", quote(tensors_[i].name), " occurs twice");
}

void TensorSource::add_all(TensorSource other) {
  for (size_t i = 0; i < other.files_.size(); ++i)
    add(std::move(other.files_[i]), i == 0 ? std::move(other.tensors_) : std::vector<Tensor>());
}

void ComputedRows::read_row_blocks(int64_t, std::byte*) const {
  fail(Code::kInternal, "rows of ", kind(), " have no blocks");
}

void require_numbers(const Tensor& tensor) {
  if (needs_scales(tensor.type))
    fail(Code::kUnsupportedModel, "tensor ", quote(tensor.name), " has dtype ", tensor.kind(),
         " (supported: F32, F16, BF16; in weights that a quantization_config ",
         "describes I8, U8, I32, I64, F8_E4M3, F8_E8M0)");
}

void read_row(const Tensor& tensor, int64_t row, float* out) {
  if (tensor.computed) return tensor.computed->read_row(row, out);
  for_each_piece(tensor, row, [&](const std::byte* blocks, int64_t done, int64_t count) {
    dequantise(tensor.type, blocks, count, out + done);
  });
}

void read_blocks(const Tensor& tensor, int64_t row, std::byte* out) {
  if (tensor.computed) return tensor.computed->read_row(row, reinterpret_cast<float*>(out));
  for_each_piece(tensor, row, [&](const std::byte* blocks, int64_t done, int64_t count) {
    std::memcpy(out + blocks_bytes(tensor.type, done), blocks,
                static_cast<size_t>(blocks_bytes(tensor.type, count)));
  });
}

}  // namespace prefix
