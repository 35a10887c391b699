#include "ops/cpu/pack.h"

#include <algorithm>
#include <vector>

#include "ops/blocks.h"
#include "ops/cpu/calibrated_rounding.h"
#include "ops/rotation.h"

namespace prefix::ops {
namespace {

// rows: [count][k] -> one panel. Columns beyond count and k stay zero.
void pack_f32(const float* rows, int64_t count, int64_t k, float* panel) {
  // Walk k outside: the panel is written in order, the rows are read as `count` streams.
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t r = 0; r < count; ++r) panel[i * kPanelColumns + r] = rows[r * k + i];
  }
}

void pack_bf16(const uint16_t* rows, int64_t count, int64_t k, uint16_t* panel) {
  for (int64_t i = 0; i < k; ++i) {
    uint16_t* const pairs = panel + i / 2 * 2 * kPanelColumns + i % 2;
    for (int64_t r = 0; r < count; ++r) pairs[2 * r] = rows[r * k + i];
  }
}

// Of rows in whole numbers; the panel has what 128 is added to.
void pack_int8(const int8_t* rows, int64_t count, int64_t k_padded, uint8_t* panel) {
  for (int64_t i = 0; i < k_padded; i += 4) {
    uint8_t* const quads = panel + i * kPanelColumns;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 0; j < 4; ++j)
        quads[4 * r + j] = static_cast<uint8_t>(rows[r * k_padded + i + j] + 128);
  }
}

// What a thread needs to fill panels.
struct Worker {
  RowReader reader;
  std::vector<std::byte> rows;
  std::vector<float> work;
  std::vector<int8_t> whole, rest;
};

// rows: f32 [count][k] -> whole numbers, and the scale of each.
void quantise_rows(const RowKernels& kernels, const PackedWeights& shape,
                   const CalibratedRounding& rounding, int64_t count, Worker& worker,
                   float* scales) {
  worker.work.resize(static_cast<size_t>((rounding.nearest() ? 1 : kPanelColumns) * shape.k));
  worker.whole.resize(static_cast<size_t>(kPanelColumns * shape.k_padded));
  QuantiseArgs args;
  args.k = shape.k;
  args.block = rotation_block(shape.k);
  args.signs = shape.signs;
  args.work = worker.work.data();
  args.k_padded = shape.k_padded;
  if (!rounding.nearest()) {  // then `work` is what rounding left
    worker.rest.resize(static_cast<size_t>(shape.k_padded));
    args.rest = worker.rest.data();
  }
  for (int64_t r = 0; r < count; ++r) {
    args.x = reinterpret_cast<const float*>(worker.rows.data()) + r * shape.k;
    args.out = worker.whole.data() + r * shape.k_padded;
    scales[r] = kernels.quantise(args).scale;
    if (rounding.nearest()) continue;
    if (!(scales[r] > 0)) std::fill_n(args.work, shape.k, 0.0f);  // nor was it rounded
    args.work += shape.k;
  }
  if (!rounding.nearest())
    rounding.round(kernels, count, worker.whole.data(), shape.k_padded, worker.work.data());
}

void pack_blocks(Threads& threads, const PackedWeights& shape,
                 std::span<const WeightSource* const> sources, int64_t n, std::byte* data) {
  const auto turns = static_cast<int64_t>(sources.size());
  std::vector<std::vector<std::byte>> rows(static_cast<size_t>(threads.count()));
  threads.run(shape.panels(), [&](int64_t panel, int index) {
    const WeightSource& source = *sources[static_cast<size_t>(panel % turns)];
    const int64_t first = panel / turns * kPanelColumns;
    const int64_t count = std::min(kPanelColumns, n - first);
    const auto row_bytes = static_cast<size_t>(blocks_bytes(source.type(first), shape.k));
    std::vector<std::byte>& own = rows[static_cast<size_t>(index)];
    own.resize(static_cast<size_t>(kPanelColumns) * row_bytes);
    for (int64_t r = 0; r < count; ++r)
      source.read(first + r, own.data() + static_cast<size_t>(r) * row_bytes);
    const BlockPanel& place = shape.blocks.get()[panel];
    fill_block_panel(place.type, own.data(), row_bytes, count, shape.k, data + place.offset);
  });
}

}  // namespace

void pack_panels(Threads& threads, const RowKernels& kernels, PackedWeights& shape,
                 std::span<const WeightSource* const> sources, int64_t n,
                 const CalibrationRows* calibration, std::byte* data) {
  const auto take_turns = static_cast<int64_t>(sources.size());
  if (shape.format == WeightFormat::kBlocks) return pack_blocks(threads, shape, sources, n, data);
  const bool int8 = shape.format == WeightFormat::kInt8;
  const size_t row_bytes =
      static_cast<size_t>(shape.k) * (int8 ? sizeof(float) : weight_bytes(shape.format));
  float* const scales =
      reinterpret_cast<float*>(data + static_cast<size_t>(shape.panels()) * shape.panel_bytes());
  if (int8) {
    shape.scales = scales;
    shape.signs = scales + shape.scale_count();
    fill_rotation_signs(shape.k, scales + shape.scale_count());
  }
  const CalibratedRounding rounding(calibration, shape.k);
  std::vector<Worker> workers(static_cast<size_t>(threads.count()),
                              Worker{RowReader(shape.format, shape.k), {}, {}, {}, {}});
  threads.run(shape.panels(), [&](int64_t panel, int index) {
    const int64_t first = panel / take_turns * kPanelColumns;
    const int64_t count = std::min(kPanelColumns, n - first);
    if (count <= 0) return;
    Worker& worker = workers[static_cast<size_t>(index)];
    worker.rows.resize(static_cast<size_t>(kPanelColumns) * row_bytes);
    const WeightSource& source = *sources[static_cast<size_t>(panel % take_turns)];
    for (int64_t r = 0; r < count; ++r)
      worker.reader.read(source, first + r,
                         worker.rows.data() + static_cast<size_t>(r) * row_bytes);
    std::byte* const out = data + static_cast<size_t>(panel) * shape.panel_bytes();
    if (int8) {
      quantise_rows(kernels, shape, rounding, count, worker, scales + panel * kPanelColumns);
      pack_int8(worker.whole.data(), count, shape.k_padded, reinterpret_cast<uint8_t*>(out));
    } else if (shape.format == WeightFormat::kF32) {
      pack_f32(reinterpret_cast<const float*>(worker.rows.data()), count, shape.k,
               reinterpret_cast<float*>(out));
    } else {
      pack_bf16(reinterpret_cast<const uint16_t*>(worker.rows.data()), count, shape.k,
                reinterpret_cast<uint16_t*>(out));
    }
  });
}

void unpack_row(const PackedWeights& weights, int64_t row, float scale, float* out) {
  const std::byte* const panel = weights.panel(row / kPanelColumns);
  const int64_t column = row % kPanelColumns;
  if (weights.format == WeightFormat::kBlocks) {
    const BlockType type = weights.blocks.get()[row / kPanelColumns].type;
    return read_block_row(type, panel, column, weights.k, scale, out);
  }
  if (weights.format == WeightFormat::kF32) {
    const auto* in = reinterpret_cast<const float*>(panel) + column;
    for (int64_t i = 0; i < weights.k; ++i) out[i] = in[i * kPanelColumns] * scale;
    return;
  }
  if (weights.format == WeightFormat::kInt8) {
    const auto* in = reinterpret_cast<const uint8_t*>(panel) + 4 * column;
    for (int64_t i = 0; i < weights.k; ++i)
      out[i] = static_cast<float>(in[i / 4 * 4 * kPanelColumns + i % 4] - 128);
    turn_back(weights.k, weights.signs, weights.scales[row] * scale, out);
    return;
  }
  const auto* in = reinterpret_cast<const uint16_t*>(panel) + 2 * column;
  for (int64_t i = 0; i < weights.k; ++i) {
    out[i] = f32_from_bf16(in[i / 2 * 2 * kPanelColumns + i % 2]) * scale;
  }
}

}  // namespace prefix::ops
