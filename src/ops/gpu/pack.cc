// Weights on their way to the device: read row by row on all threads, sent in pieces.
#include "ops/cpu/pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/op_gpu.h"

namespace prefix::ops {
namespace {

// Weights are read and sent in pieces of about this size.
constexpr int64_t kPackBytes = int64_t{32} << 20;

}  // namespace

// Row-major [n rounded up to 32][k_padded]: 32 rows take as many bytes as a panel of the CPU, so
// that Matrix::panel_of() is right here too. With two readers, blocks of 32 rows take turns.
Matrix GpuDevice::pack_from(int64_t n_total, int64_t k, std::span<const RowReader* const> readers,
                            int64_t n_each) {
  Matrix m = matrix_shape(options_.dtype, n_total, k);
  std::byte* const data = allocate(m.bytes());
  const size_t element = dtype_bytes(m.type);
  const size_t row_bytes = static_cast<size_t>(m.k_padded) * element;
  const auto sources = static_cast<int64_t>(readers.size());
  try {
    const int64_t rows = m.panels() * 32;
    const int64_t step = std::max<int64_t>(1, kPackBytes / static_cast<int64_t>(row_bytes));
    std::vector<std::byte> piece(static_cast<size_t>(std::min(step, rows)) * row_bytes);
    std::vector<std::vector<float>> buffers(static_cast<size_t>(threads_.count()));
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      threads_.run(count, [&](int64_t i, int worker) {
        std::byte* const out = piece.data() + static_cast<size_t>(i) * row_bytes;
        std::memset(out, 0, row_bytes);
        const int64_t panel = (begin + i) / 32;
        const int64_t row = panel / sources * 32 + (begin + i) % 32;
        if (row >= n_each) return;
        std::vector<float>& values = buffers[static_cast<size_t>(worker)];
        values.resize(static_cast<size_t>(k));
        (*readers[static_cast<size_t>(panel % sources)])(row, values.data());
        if (m.type == DType::kF32) {
          std::memcpy(out, values.data(), values.size() * sizeof(float));
        } else {
          auto* const to = reinterpret_cast<uint16_t*>(out);
          for (size_t c = 0; c < values.size(); ++c) to[c] = bf16_from_f32(values[c]);
        }
      });
      upload(data + static_cast<size_t>(begin) * row_bytes, piece.data(),
             static_cast<size_t>(count) * row_bytes);
    }
  } catch (...) {
    release(data, m.bytes());
    throw;
  }
  m.data = data;
  return m;
}

Matrix GpuDevice::pack(int64_t n, int64_t k, const RowReader& rows) {
  const RowReader* const readers[] = {&rows};
  return pack_from(n, k, readers, n);
}

Matrix GpuDevice::pack_gated(int64_t n, int64_t k, const RowReader& gate, const RowReader& up) {
  const RowReader* const readers[] = {&gate, &up};
  return pack_from((n + 31) / 32 * 64, k, readers, n);
}

}  // namespace prefix::ops
