// The scratch memory of a task of attention (attention_task.h), known without the task.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/attention_plan.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/attention_states.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/scratch.h"
#include "ops/kv_layout.h"

namespace prefix::ops {

// Spare columns: SoftmaxArgs::lds. An odd number of cache lines, as rows of a tile should not share
// sets of L1.
inline constexpr int64_t kScoreColumns = kKeyBlock + 16;

// What a packed row has there.
struct PackedRow {
  int64_t d;            // numbers of its query, padded
  bool int8;            // keys and values are
  size_t query_bytes;   // of a number of the query,
  size_t weight_bytes;  // of a weight

  PackedRow(const KvLayout& kv, size_t act_bytes, const GemmKernels& gemm)
      : d(kv.d_padded()),
        int8(kv.type == KvType::kInt8),
        query_bytes(int8 ? static_cast<size_t>(gemm.int8_operand_bytes()) : act_bytes),
        weight_bytes(int8 ? 1 : act_bytes) {}

  // Leading dimensions in elements: whole cache lines, which a tile's row of 64 bytes never
  // straddles, and an odd number of them, as rows of a tile should not share sets of L1.
  int64_t ldq() const { return leading(d, query_bytes); }
  int64_t ldp() const { return leading(kKeyBlock, weight_bytes); }

 private:
  static int64_t leading(int64_t numbers, size_t size) {
    const auto bytes = static_cast<int64_t>(size);
    return ((numbers * bytes + 63) / 64 | 1) * 64 / bytes;
  }
};

// Bytes of its parts, of a task with so many packed rows, among others with those states.
struct TaskMemory {
  size_t queries, weights, scores;
  size_t positions;  // the first key that a row sees, and once more the last one
  size_t state;      // of the current chunk, and once more of those before it
  // What int8 keys and values need besides, of each row: a scale and a correction of its query, of
  // each page of a block where the scales of its keys and values are, and of each span the scale of
  // its weights.
  size_t whole_line = 0, whole = 0;

  TaskMemory(const PackedRow& row, int64_t rows, const SoftmaxStates& states)
      : queries(of_rows(rows, row.ldq(), row.query_bytes)),
        weights(of_rows(rows, row.ldp(), row.weight_bytes)),
        scores(of_rows(rows, kScoreColumns, sizeof(float))),
        positions(of_rows(rows, 1, sizeof(int32_t))),
        state(states.bytes()) {
    if (!row.int8) return;
    whole_line = of_rows(rows, 1, sizeof(float));
    whole = 2 * whole_line + static_cast<size_t>(rows) * (kBlockPages * 2 * sizeof(const float*) +
                                                          kBlockSpans * sizeof(float));
  }
  size_t bytes() const { return queries + weights + scores + 2 * positions + 2 * state + whole; }

 private:
  static size_t of_rows(int64_t rows, int64_t numbers, size_t size) {
    return whole_lines(static_cast<size_t>(rows * numbers) * size);
  }
};

}  // namespace prefix::ops
