// One kv head of an item of attention on the CPU (attention.cc has the drawing). A task belongs to
// one thread, and its memory is that thread's scratch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/attention_plan.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/attention_memory.h"
#include "ops/cpu/attention_states.h"
#include "ops/cpu/context.h"
#include "ops/cpu/key_block.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/step.h"
#include "ops/cpu/wide_panels.h"

namespace prefix::ops {

inline int32_t first_chunk(const AttentionTile& tile) { return tile.first_key / kKeyChunk; }
inline int32_t end_chunk(const AttentionTile& tile) { return tile.last_position / kKeyChunk + 1; }

// Everything that the tasks of one call share.
struct AttentionCall {
  const CpuContext& context;
  const StepArrays& step;
  const AttentionPlan& plan;
  const AttentionArgs& args;
  int64_t group;  // query heads per kv head
  PackedRow row;
  SoftmaxStates states;
  std::byte* partials = nullptr;
  int64_t d = row.d;        // padded
  int64_t ldq = row.ldq();  // elements
  int64_t ldp = row.ldp();

  bool int8() const { return row.int8; }
  size_t act_bytes() const { return context.act_bytes(); }
  size_t query_bytes() const { return row.query_bytes; }
  size_t weight_bytes() const { return row.weight_bytes; }
  int64_t ldo() const { return states.ldo; }
  SoftmaxState partial(int64_t slot, int64_t head) const {
    const int64_t before = slot * step.kv.kv_heads + head;
    return states.at(partials + static_cast<size_t>(before) * states.bytes());
  }
};

class AttentionTask {
 public:
  // `worker`: of the calling thread.
  AttentionTask(const AttentionCall& call, const AttentionTile& tile, int64_t head, int worker);

  void run(const AttentionItem& item);
  // Merges the partial slots [slot, slot + chunks) of a split tile.
  void merge_chunks(int32_t slot, int32_t chunks);

 private:
  // Bytes to the head of a packed row, or of the last one, in rows of all heads.
  size_t head_offset(const ActivationBuffer& all, int64_t r) const {
    r = std::min(r, rows_ - 1);
    const int64_t row = tile_.row_begin + r / call_.group;
    const int64_t column = (head_ * call_.group + r % call_.group) * call_.step.kv.head_dim;
    return static_cast<size_t>(row * all.ld + column) * call_.act_bytes();
  }
  const std::byte* query(int64_t r) const {
    return call_.args.q.data + head_offset(call_.args.q, r);
  }

  // Of the keys at positions [first, end) does the row see one?
  bool sees(int64_t row, int32_t first, int32_t end) const {
    return last_[row] >= first && first_[row] < end;
  }
  // Cuts off rows at both ends that see none of these keys.
  void trim(int32_t first, int32_t end, int64_t& row_begin, int64_t& row_end) const {
    while (row_begin < row_end && !sees(row_begin, first, end)) ++row_begin;
    while (row_begin < row_end && !sees(row_end - 1, first, end)) --row_end;
  }

  // Of a few pages in a row, counted from the first one.
  struct PageRange {
    int32_t first = 0, end = 0;
    bool operator==(const PageRange&) const = default;
  };
  // Rows in groups of a register block, each with the pages of [position, ..) that its positions
  // need: a page that no row of the group sees is not touched. task(begin, end, pages).
  template <class Task>
  void over_seen(int32_t position, int32_t count, int64_t row_begin, int64_t row_end,
                 const Task& task) const {
    const int64_t step = call_.context.kernels->gemm.row_step;
    int64_t begin = row_begin;
    PageRange seen = pages_seen(position, count, begin, std::min(row_end, begin + step));
    while (begin < row_end) {
      int64_t end = std::min(row_end, begin + step);
      PageRange next;
      while (end < row_end) {
        const int64_t group_end = std::min(row_end, end + step);
        next = pages_seen(position, count, end, group_end);
        if (next != seen) break;
        end = group_end;
      }
      if (seen.first < seen.end) task(begin, end, seen);
      begin = end;
      seen = next;
    }
  }
  PageRange pages_seen(int32_t position, int32_t count, int64_t begin, int64_t end) const;

  const std::byte* value_page(int32_t page) const {
    return call_.step.pool + call_.step.kv.value_offset(page, call_.args.layer, head_);
  }
  const std::byte* key_page(int32_t page) const {
    return call_.step.pool + call_.step.kv.key_offset(page, call_.args.layer, head_);
  }

  void gather_queries();
  void walk_chunk(int32_t chunk);
  void gather_block(int32_t index, KeyBlock& block) const;
  void walk_block(const KeyBlock& block);
  void scores(const KeyBlock& block, const KeyBlock::Piece& piece);
  void softmax(const KeyBlock& block, int64_t row_begin, int64_t row_end) const;
  void values(const KeyBlock& block, const KeyBlock::Piece& piece);
  void multiply_values(const KeyBlock& block, const KeyBlock::Piece& piece, int64_t begin,
                       int64_t end, PageRange seen);
  // Whether keys and values become f32 beside a tile of so many rows (WidePanels).
  bool widens(int64_t rows) const;
  // Of keys or values, by the kernel of their type; `next`: of the next tile.
  void multiply(const TileArgs& tile, const Panels& next);
  void merge(const SoftmaxState& from) const;
  void merge_sinks() const;
  void finish() const;

  // With int8 keys and values (attention_task_int8.cc):
  void lay_out_whole(std::byte* at, size_t line);
  void quantise_queries();
  void whole_softmax(const KeyBlock& block, int64_t row_begin, const SoftmaxArgs& args) const;
  int64_t point_to_scales(const KeyBlock& block, int64_t row_begin, int64_t row_end) const;
  void whole_values(const KeyBlock& block, int64_t row_begin, int64_t row_end) const;
  void multiply_whole(const std::byte* const* values, int32_t count, int64_t page, int64_t begin,
                      int64_t end) const;
  const float* scales_behind(const std::byte* block) const {
    return reinterpret_cast<const float*>(block + call_.step.kv.numbers_bytes());
  }

  const AttentionCall& call_;
  const AttentionPlan& plan_;
  const AttentionTile& tile_;
  const int64_t head_;
  const int64_t rows_;
  std::byte* q_;
  std::byte* p_;
  float* s_;
  int32_t* first_;  // key that a packed row sees, and the last one
  int32_t* last_;
  SoftmaxState now_;                // of the current chunk
  SoftmaxState total_;              // of the chunks before it
  KeyBlock block_;                  // at which the walk is
  std::optional<WidePanels> wide_;  // where widens() any tile
  // Of int8 keys and values only:
  float* q_scales_ = nullptr;
  int32_t* q_corrections_ = nullptr;
  const float** key_scales_ = nullptr;
  const float** value_scales_ = nullptr;
  float* p_scales_ = nullptr;
};

}  // namespace prefix::ops
