#include "tree/table_clusters.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace prefix {
namespace {

uint32_t lowest(uint32_t set) { return set & (0U - set); }
size_t index_of(uint32_t set) { return static_cast<size_t>(std::countr_zero(set)); }

// Calls f(column) for each bit.
template <typename F>
void each_column(const uint64_t* mask, size_t words, const F& f) {
  for (size_t w = 0; w < words; ++w)
    for (uint64_t bits = mask[w]; bits != 0; bits &= bits - 1)
      f(static_cast<int32_t>(64 * w) + std::countr_zero(bits));
}

}  // namespace

// The pairs of an order are those of its hits: the longest are joined first.
TableClusters::TableClusters(const NumberedTable& table, std::span<const uint32_t> rows,
                             std::span<const int64_t> hits)
    : t_(table), words_((static_cast<size_t>(table.columns) + 63) / 64) {
  const size_t n = rows.size();
  nodes_.resize(2 * n - 1);
  pairs_.reserve(n);
  masks_.assign(nodes_.size() * words_, 0);
  set_masks_.resize(kSets * words_);
  all_mask_.resize(words_);
  common_.fill(0);
  best_.fill(0);
  for (uint32_t i = 0; i < n; ++i) {
    nodes_[i] = {kNone, kNone, rows[i], 0};
    alike(rows[i], rows[i], mask(i));
  }
  struct Waiting {
    uint32_t node;
    int64_t hit;  // with what stands before it
  };
  std::vector<Waiting> waiting;
  auto next = static_cast<uint32_t>(n);
  const auto join_last = [&] {
    const uint32_t right = waiting.back().node;
    waiting.pop_back();
    join(next, waiting.back().node, right);
    pairs_.push_back(next);
    waiting.back().node = next++;
  };
  for (uint32_t i = 0; i < n; ++i) {
    while (waiting.size() > 1 && waiting.back().hit >= hits[i]) join_last();
    waiting.push_back({i, hits[i]});
  }
  while (waiting.size() > 1) join_last();
  root_ = waiting.front().node;
}

int64_t TableClusters::improve(Open open) {
  int64_t gain = 0;
  for (const uint32_t node : pairs_) gain += improve(node, open);
  return gain;
}

RowOrder TableClusters::order() const {
  RowOrder out;
  out.columns.reserve(t_.cells.size());
  std::vector<int32_t> path;
  std::vector<uint8_t> in_path(static_cast<size_t>(t_.columns));
  std::vector<std::pair<uint32_t, size_t>> waiting = {{root_, 0}};  // and the length of its path
  while (!waiting.empty()) {
    const auto [node, depth] = waiting.back();
    waiting.pop_back();
    for (; path.size() > depth; path.pop_back()) in_path[static_cast<size_t>(path.back())] = false;
    each_column(mask(node), words_, [&](int32_t c) {
      if (in_path[static_cast<size_t>(c)]) return;
      in_path[static_cast<size_t>(c)] = true;
      path.push_back(c);
    });
    if (nodes_[node].left == kNone) {
      out.rows.push_back(nodes_[node].row);
      out.columns.insert(out.columns.end(), path.begin(), path.end());
    } else {
      waiting.emplace_back(nodes_[node].right, path.size());
      waiting.emplace_back(nodes_[node].left, path.size());
    }
  }
  return out;
}

int64_t TableClusters::length(const uint64_t* mask, uint32_t row) const {
  int64_t sum = 0;
  each_column(mask, words_, [&](int32_t c) { sum += t_.length(c, row); });
  return sum;
}

void TableClusters::alike(uint32_t row, uint32_t other, uint64_t* mask) const {
  const uint32_t *const a = t_.row(row), *const b = t_.row(other);
  for (size_t w = 0; w < words_; ++w) mask[w] = 0;
  for (size_t c = 0; c < static_cast<size_t>(t_.columns); ++c)
    mask[c / 64] |= static_cast<uint64_t>(a[c] == b[c]) << (c % 64);
}

void TableClusters::join(uint32_t node, uint32_t left, uint32_t right) {
  const uint32_t row = nodes_[left].row;
  alike(row, nodes_[right].row, mask(node));
  for (size_t w = 0; w < words_; ++w) mask(node)[w] &= mask(left)[w] & mask(right)[w];
  nodes_[node] = {left, right, row, length(mask(node), row)};
}

int64_t TableClusters::improve(uint32_t node, Open open) {
  const Piece p = piece(node, open);
  if (p.count < 3) return 0;
  const uint32_t all = (1U << p.count) - 1;
  common_of_all(p);
  for (uint32_t set = 1; set <= all; ++set) {  // each behind its subsets
    common_of_set(p, set);
    if (set != lowest(set)) best_halves(set);
  }
  if (best_[all] <= p.common) return 0;
  size_t used = 0;
  rebuild(p, all, used);
  return best_[all] - p.common;
}

TableClusters::Piece TableClusters::piece(uint32_t node, Open open) {
  Piece p{2, {nodes_[node].left, nodes_[node].right}, {node}, nodes_[node].common};
  while (p.count < kClusters) {
    size_t chosen = p.count;
    const size_t first = open == Open::kAny ? random() % p.count : 0;
    for (size_t i = 0; i < p.count; ++i) {
      const size_t at = (first + i) % p.count;
      const Node& candidate = nodes_[p.clusters[at]];
      if (candidate.left == kNone) continue;
      if (chosen == p.count || candidate.common < nodes_[p.clusters[chosen]].common) chosen = at;
      if (open == Open::kAny) break;
    }
    if (chosen == p.count) break;  // rows alone
    const uint32_t opened = p.clusters[chosen];
    p.common += nodes_[opened].common;
    p.pairs[p.count - 1] = opened;
    p.clusters[chosen] = nodes_[opened].left;
    p.clusters[p.count++] = nodes_[opened].right;
  }
  return p;
}

// Deep in a table rows are alike in almost all columns: these are added up once for all sets.
void TableClusters::common_of_all(const Piece& p) {
  const uint32_t row = nodes_[p.clusters[0]].row;
  std::copy_n(mask(p.clusters[0]), words_, all_mask_.begin());
  for (size_t i = 1; i < p.count; ++i) {
    alike(row, nodes_[p.clusters[i]].row, set_mask(0));
    for (size_t w = 0; w < words_; ++w) all_mask_[w] &= set_mask(0)[w] & mask(p.clusters[i])[w];
  }
  all_common_ = length(all_mask_.data(), row);
}

// A set of two by comparison, a larger one as its first two and all but the first.
void TableClusters::common_of_set(const Piece& p, uint32_t set) {
  const uint32_t first = lowest(set), rest = set ^ first, second = lowest(rest);
  const uint32_t cluster = p.clusters[index_of(first)];
  uint64_t* const to = set_mask(set);
  common_[set] = best_[set] = 0;
  if (rest == 0) {
    for (size_t w = 0; w < words_; ++w) to[w] = mask(cluster)[w] & ~all_mask_[w];
    return;
  }
  if (rest == second) alike(nodes_[cluster].row, nodes_[p.clusters[index_of(second)]].row, to);
  const uint64_t* const with = rest == second ? set_mask(first) : set_mask(first | second);
  for (size_t w = 0; w < words_; ++w)
    to[w] = (rest == second ? to[w] : ~uint64_t{0}) & with[w] & set_mask(rest)[w];
  common_[set] = all_common_ + length(to, nodes_[cluster].row);
}

void TableClusters::best_halves(uint32_t set) {
  const uint32_t first = lowest(set), rest = set ^ first;
  int64_t best = -1;
  for (uint32_t others = (rest - 1) & rest;; others = (others - 1) & rest) {
    const int64_t sum = best_[first | others] + best_[rest ^ others];
    if (sum > best) {
      best = sum;
      half_[set] = first | others;
    }
    if (others == 0) break;
  }
  best_[set] = best + common_[set];
}

uint32_t TableClusters::rebuild(const Piece& p, uint32_t set, size_t& used) {
  if (set == lowest(set)) return p.clusters[index_of(set)];
  const uint32_t node = p.pairs[used++];
  const uint32_t left = rebuild(p, half_[set], used);
  const uint32_t right = rebuild(p, set ^ half_[set], used);
  for (size_t w = 0; w < words_; ++w) mask(node)[w] = set_mask(set)[w] | all_mask_[w];
  nodes_[node] = {left, right, nodes_[left].row, common_[set]};
  return node;
}

size_t TableClusters::random() {
  seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
  return static_cast<size_t>(seed_ >> 33);
}

}  // namespace prefix
