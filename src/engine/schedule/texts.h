// Whole texts of a model whose tokens see those behind them: which are being computed, and what is
// kept of them. No part of such a text is of use for another one, but the same text is.
//
//   request ── root of its namespace ──> kept: [ 5 9 12 7 ] S     its rows are read, nothing is computed
//         │                                               └─ state: positions -1 3 | row | row
//         ├─ computing ──> private root, the path of another request that runs: they share its rows
//         └─ else ───────> private root of its own, with keys and values as long as it runs
//
// The state of a text is what was read of it: final hidden states (before Dense layers, heads, and
// all else that a request makes of them), of positions, and as position -1 the mean of all. A
// request that reads what is there is answered; one that reads more is computed, and adds it.
//
//   bytes of a state   [ count | position 0 | ... | row 0 | row 1 | ... ]    int32 and f32; whole pages
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/kv_memory.h"
#include "engine/request.h"
#include "tree/tree.h"

namespace prefix {

// Final hidden states of a text. Positions ascend, kMean before all.
struct TextRows {
  static constexpr int32_t kMean = -1;

  size_t width() const { return positions.empty() ? 0 : rows.size() / positions.size(); }
  std::span<const float> row(size_t i) const {
    return std::span(rows).subspan(i * width(), width());
  }

  std::vector<int32_t> positions;
  std::vector<float> rows;
};

// The positions whose rows a request reads.
std::vector<int32_t> positions_read(const RequestSpec& spec);
// Of `all` the rows at these positions; none when one is not there.
TextRows rows_at(const TextRows& all, std::span<const int32_t> positions);
// Those of both.
TextRows merged(const TextRows& a, const TextRows& b);

class Texts {
 public:
  // width: of a final hidden state.
  Texts(Tree& tree, PagePool& pages, KvMemory& kv, int32_t width)
      : tree_(tree), pages_(pages), kv_(kv), width_(static_cast<size_t>(width)) {}

  // What is kept of the text below the root of its namespace; nothing: no rows.
  TextRows find(NodeId root, std::span<const int32_t> tokens) const;
  // Adds rows to what is kept, unless there is no room. Never throws: a text that is not kept is
  // computed again.
  void keep(NodeId root, std::span<const int32_t> tokens, const TextRows& rows,
            const AttachOptions& use) noexcept;

  // The private root below which a text is that will be computed; kNoNode when there is none.
  NodeId computing(NodeId root, std::span<const int32_t> tokens) const;
  void begin(NodeId root, std::span<const int32_t> tokens, NodeId own);
  void end(NodeId root, std::span<const int32_t> tokens, NodeId own) noexcept;

 private:
  struct Computing {
    NodeId root;  // of the namespace
    NodeId own;
  };
  TextRows read(NodeId node) const;
  void write(NodeId node, const TextRows& rows);

  Tree& tree_;
  PagePool& pages_;
  KvMemory& kv_;
  size_t width_;
  std::unordered_map<uint64_t, Computing> computing_;  // by a hash of the root and the tokens
};

}  // namespace prefix
