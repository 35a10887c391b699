// One step of the model, planned: which tree tokens are computed, in which order, where their keys
// and values go, and what attention reads. Host code, shared by every backend, no floating point.
//
// The scheduler names what it wants (take, recompute); build() lays it out depth first:
//
//   tree (numbers = tokens to compute)        rows
//   root ─ [2048 cached] ─┬─ a: 3 pending     0 1 2        a
//                         ├─ b: 1 decode      3            b
//                         └─ c: 2 pending     4 5          c
//                               └─ d: 1       6            d (below c)
//
// so the rows below any node are consecutive, and a page is read once for all of them. Roots come
// in the order of their adapters, so that the rows of an adapter are consecutive, too.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/op.h"
#include "ops/scan_plan.h"
#include "tree/tree.h"

namespace prefix {

struct StepPlan {
  // One entry per row.
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<int32_t> rope_rows;  // row of the rotary tables: position + the root's rope_offset
  std::vector<KvSlot> slots;

  std::vector<int32_t> clear;            // pages to zero first
  std::vector<PageCopy> copies;          // after a layer's append, before its attention, in order
  std::vector<AttentionPlan> attention;  // of each of StepShape::windows
  ScanPlan scan;                         // of models with recurrent layers
  std::vector<int32_t> reads;            // rows that heads will read, ascending

  // What the layers go on with behind the last keys, values and states: row i is row reads[i] of
  // the step, and nothing is computed for the others. Off: all rows go on.
  //
  //   last layer     norm, q k v ┃ rows that are read: attention, out, feed-forward ┃ heads
  struct Kept {
    bool on = false;
    std::vector<int32_t> positions;
    std::vector<AttentionPlan> attention;  // as that of the step; only what the last layer reads
  };
  Kept kept;

  // Rows [begin, end) are computed with this adapter. One entry an adapter, ascending;
  // rows that are in none are the model's alone.
  struct AdapterRows {
    int32_t adapter;
    int32_t begin, end;
  };
  std::vector<AdapterRows> adapters;

  struct Commit {
    NodeId node;
    int32_t computed;
    int32_t row;  // of the first token that the step computes
  };
  std::vector<Commit> commits;  // parents first; applied when the step succeeded

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

// What the plan must know of the model and device.
struct StepShape {
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t threads = 1;
  int32_t tile_rows = 96;              // packed query rows of an attention tile (Device::tile_rows)
  int32_t state_pages = 0;             // of a state; 0: the model has no recurrent layers
  std::vector<int32_t> windows = {0};  // that its layers have, each once (AttentionPlan::window)
  // A row sees the tokens behind it too. Then a text is one node below its root,
  // and all of it is in the step or nothing.
  bool bidirectional = false;
  bool keeps_reads = false;     // StepPlan::kept (Device::keeps_rows)
  int32_t last_attention = -1;  // index in windows, if attention is what mixes rows last
};

class StepBuilder {
 public:
  StepBuilder(const Tree& tree, const StepShape& shape) : tree_(tree), shape_(shape) {}

  void begin();

  // Adds pending tokens of the first `length` tokens of the path to `node`, ancestors first, at
  // most `limit`. Returns the number added; tokens that are in the step already count as done.
  int32_t take(NodeId node, int32_t length, int32_t limit);
  // Adds a row for the computed token at `position` of the path, only to read its result. Returns
  // 1, or 0 when such a row was there already.
  int32_t recompute(NodeId node, int32_t position);

  // For models with recurrent layers, instead of take(): adds rows for positions [from, length) of
  // the path to `node`, in order and at most `limit`; those that are computed already get a row
  // that writes no keys. Returns the number added; what is in the step already counts as done.
  struct Scanned {
    int32_t pending = 0;     // rows added for tokens that are computed the first time,
    int32_t recomputed = 0;  // and the others
    int32_t rows() const { return pending + recomputed; }
  };
  Scanned scan(NodeId node, int32_t from, int32_t length, int32_t limit);
  // The row at `position` of the path may begin with this state, that of the tokens before it. The
  // pages stay where they are until build() is over.
  void start(NodeId node, int32_t position, const std::vector<int32_t>& state);

  void build(StepPlan& plan);
  // After build, when plan.reads is complete: StepPlan::kept.
  void keep_reads(StepPlan& plan) const;

  // After build: the row of the token at `position` of the path to `node`, or -1.
  int32_t row_of(NodeId node, int32_t position) const;
  // After build: the end of the rows that follow one another on the path from position `from` on.
  int32_t reach(NodeId node, int32_t from, int32_t length);
  // After build: stores the state after the token at `position` of the path, which has a row.
  void store(NodeId node, int32_t position, const std::vector<int32_t>& state, StepPlan& plan);

 private:
  struct Mark {
    int64_t step = 0;  // valid when equal to step_
    NodeId first_child = kNoNode;
    NodeId last_child = kNoNode;
    NodeId next = kNoNode;
    int32_t take_begin = 0;  // offsets in the node's edge
    int32_t take_end = 0;
    int32_t extra_begin = 0;  // extras_ of this node
    int32_t extra_end = 0;
    int32_t row_begin = 0;  // own rows, then those of descendants
    int32_t own_end = 0;
    int32_t subtree_end = 0;
    int32_t page_begin = 0;  // place in pages_ where the first page is, or would be
    int32_t list_begin = 0;  // of those that are there
    int32_t list_end = 0;
    int32_t last_segment = -1;
  };
  void touch(NodeId id);
  void list_chain(NodeId node, int32_t from, int32_t length);
  bool marked(NodeId id) const {
    return static_cast<size_t>(id) < marks_.size() && marks_[id].step == step_;
  }
  static int64_t key_of(NodeId id, int32_t offset) {
    return static_cast<int64_t>(id) << 32 | offset;
  }
  void clear(StepPlan& plan) const;
  void sort_extras();
  void place_below(NodeId root, StepPlan& plan);
  void append_rows(const Node& n, int32_t begin, int32_t end, StepPlan& plan) const;
  void place_rows(NodeId id, StepPlan& plan);
  static void add_adapter_rows(int32_t adapter, int32_t begin, StepPlan& plan);
  void list_pages(const Node& n, Mark& m);
  void place_segments(NodeId id, StepPlan& plan);
  int32_t state_number(const std::vector<int32_t>& state, StepPlan& plan);
  struct PlannedRows;
  void plan_attention(const PlannedRows& rows, AttentionPlan& attention) const;
  void split_tiles(AttentionPlan& attention) const;
  void add_runs(NodeId id, int32_t row_begin, int32_t row_end, const PlannedRows& rows,
                AttentionPlan& attention) const;

  const Tree& tree_;
  StepShape shape_;
  int64_t step_ = 0;
  std::vector<Mark> marks_;  // by node id
  std::vector<NodeId> roots_;
  std::vector<int32_t> pages_;                      // frames of the marked nodes' pages
  std::vector<int32_t> ends_;                       // AttentionPlan::ends
  std::vector<std::pair<NodeId, int32_t>> extras_;  // (node, offset) to recompute
  std::unordered_set<int64_t> extra_keys_;
  std::vector<NodeId> order_;                                        // marked nodes, depth first
  std::vector<NodeId> chain_;                                        // scratch
  std::unordered_map<int64_t, const std::vector<int32_t>*> starts_;  // by (node, offset)
  std::unordered_map<int32_t, int32_t> state_numbers_;               // by their first page
};

}  // namespace prefix
