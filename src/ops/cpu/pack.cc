#include "ops/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace prefix::ops {
namespace {

constexpr int64_t kPanel = 32;

// rows: [count][k] -> one panel. Columns beyond count and k stay zero.
void pack_panel(DType type, const float* rows, int64_t count, int64_t k, std::byte* panel) {
  // Walk k outside: the panel is written in order, the rows are read as `count` streams.
  if (type == DType::kF32) {
    auto* out = reinterpret_cast<float*>(panel);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t r = 0; r < count; ++r) out[i * kPanel + r] = rows[r * k + i];
    }
    return;
  }
  auto* out = reinterpret_cast<uint16_t*>(panel);
  for (int64_t i = 0; i < k; ++i) {
    uint16_t* const pairs = out + i / 2 * 2 * kPanel + i % 2;
    for (int64_t r = 0; r < count; ++r) pairs[2 * r] = bf16_from_f32(rows[r * k + i]);
  }
}

}  // namespace

uint16_t bf16_from_f32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f32_from_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

Matrix matrix_shape(DType type, int64_t n, int64_t k) {
  Matrix matrix;
  matrix.type = type;
  matrix.n = n;
  matrix.k = k;
  matrix.k_padded = (k + 31) / 32 * 32;
  return matrix;
}

void pack_panels(Threads& threads, const Matrix& matrix, std::span<const RowReader* const> readers,
                 int64_t n, std::byte* data) {
  const auto sources = static_cast<int64_t>(readers.size());
  // One row buffer per worker; reading a row is the expensive part (dequantisation, page faults).
  std::vector<std::vector<float>> buffers(static_cast<size_t>(threads.count()));
  threads.run(matrix.panels(), [&](int64_t panel, int worker) {
    const int64_t first = panel / sources * kPanel;
    const int64_t count = std::min(kPanel, n - first);
    if (count <= 0) return;
    std::vector<float>& rows = buffers[static_cast<size_t>(worker)];
    rows.resize(static_cast<size_t>(kPanel * matrix.k));
    for (int64_t r = 0; r < count; ++r) {
      (*readers[static_cast<size_t>(panel % sources)])(first + r, rows.data() + r * matrix.k);
    }
    pack_panel(matrix.type, rows.data(), count, matrix.k,
               data + static_cast<size_t>(panel) * matrix.panel_bytes());
  });
}

void unpack_row(const Matrix& matrix, int64_t row, float scale, float* out) {
  const std::byte* panel = matrix.data + static_cast<size_t>(row / kPanel) * matrix.panel_bytes();
  const int64_t column = row % kPanel;
  if (matrix.type == DType::kF32) {
    const auto* in = reinterpret_cast<const float*>(panel) + column;
    for (int64_t i = 0; i < matrix.k; ++i) out[i] = in[i * kPanel] * scale;
    return;
  }
  const auto* in = reinterpret_cast<const uint16_t*>(panel) + 2 * column;
  for (int64_t i = 0; i < matrix.k; ++i) {
    out[i] = f32_from_bf16(in[i / 2 * 2 * kPanel + i % 2]) * scale;
  }
}

}  // namespace prefix::ops
