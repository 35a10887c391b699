#include "engine/schedule/texts.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/status.h"

namespace prefix {
namespace {

uint64_t hash_of(NodeId root, std::span<const int32_t> tokens) {
  auto h = static_cast<uint64_t>(root) + 0x9e3779b97f4a7c15u;
  for (const int32_t token : tokens) {
    h = (h ^ static_cast<uint32_t>(token)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 31;
  }
  return h;
}

size_t bytes_of(const TextRows& rows) {
  return (1 + rows.positions.size()) * sizeof(int32_t) + rows.rows.size() * sizeof(float);
}

}  // namespace

std::vector<int32_t> positions_read(const RequestSpec& spec) {
  if (spec.task != Task::kEmbed) return {};
  const auto n = static_cast<int32_t>(spec.tokens.size());
  switch (spec.pooling) {
    case Pooling::kLast:
      return {n - 1};
    case Pooling::kFirst:
      return {0};
    case Pooling::kMean:
      return {TextRows::kMean};
    case Pooling::kTokens:
      break;
  }
  if (!spec.positions.empty()) return spec.positions;
  std::vector<int32_t> all(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) all[static_cast<size_t>(i)] = i;
  return all;
}

TextRows rows_at(const TextRows& all, std::span<const int32_t> positions) {
  if (!std::ranges::includes(all.positions, positions)) return {};
  TextRows some;
  size_t i = 0;
  for (const int32_t position : positions) {
    while (all.positions[i] != position) ++i;
    some.positions.push_back(position);
    some.rows.insert(some.rows.end(), all.row(i).begin(), all.row(i).end());
  }
  return some;
}

TextRows merged(const TextRows& a, const TextRows& b) {
  TextRows both;
  size_t i = 0, k = 0;
  const auto take = [&](const TextRows& from, size_t& at) {
    both.positions.push_back(from.positions[at]);
    both.rows.insert(both.rows.end(), from.row(at).begin(), from.row(at).end());
    ++at;
  };
  while (i < a.positions.size() || k < b.positions.size()) {
    const bool from_b =
        i == a.positions.size() || (k < b.positions.size() && b.positions[k] < a.positions[i]);
    if (from_b) {
      take(b, k);
    } else {
      if (k < b.positions.size() && b.positions[k] == a.positions[i]) ++k;
      take(a, i);
    }
  }
  return both;
}

// --- kept ----------------------------------------------------------------------------------------

TextRows Texts::find(NodeId root, std::span<const int32_t> tokens) const {
  const NodeId node = tree_.state_of(root, tokens);
  return node == kNoNode ? TextRows{} : read(node);
}

TextRows Texts::read(NodeId node) const {
  const size_t page_bytes = kv_.layout().page_bytes();
  const std::vector<int32_t>& pages = tree_.state_pages(node);
  std::vector<std::byte> bytes(pages.size() * page_bytes);
  std::vector<KvMemory::Read> reads;
  for (size_t i = 0; i < pages.size(); ++i)
    reads.push_back({pages_.frame(pages[i]), bytes.data() + i * page_bytes});
  kv_.read(reads);
  const std::byte* from = bytes.data();
  const auto take = [&](void* to, size_t count) {
    std::memcpy(to, from, count);
    from += count;
  };
  int32_t count = 0;
  take(&count, sizeof(count));
  TextRows rows;
  rows.positions.resize(static_cast<size_t>(count));
  rows.rows.resize(rows.positions.size() * width_);
  take(rows.positions.data(), rows.positions.size() * sizeof(int32_t));
  take(rows.rows.data(), rows.rows.size() * sizeof(float));
  return rows;
}

void Texts::keep(NodeId root, std::span<const int32_t> tokens, const TextRows& rows,
                 const AttachOptions& use) noexcept {
  try {
    const TextRows before = find(root, tokens);
    const TextRows all = merged(before, rows);
    const NodeId node = tree_.attach_whole(root, tokens, use);
    try {
      if (all.positions.size() > before.positions.size()) write(node, all);
      if (tree_.has_state(node)) tree_.use_state(node);
    } catch (const std::exception&) {  // no memory: what is without a state goes below
    }
    tree_.unlock(node, true);
  } catch (const std::exception&) {  // no memory, or beyond the quota
  }
}

// The node is locked. A state that a lease pins stays as it is, and so does one without room for
// another.
void Texts::write(NodeId node, const TextRows& rows) {
  const size_t page_bytes = kv_.layout().page_bytes();
  const size_t count = (bytes_of(rows) + page_bytes - 1) / page_bytes;
  std::vector<std::byte> bytes(count * page_bytes);  // zeros behind the rows
  std::byte* to = bytes.data();
  const auto put = [&](const void* from, size_t n) {
    std::memcpy(to, from, n);
    to += n;
  };
  const auto positions = static_cast<int32_t>(rows.positions.size());
  put(&positions, sizeof(positions));
  put(rows.positions.data(), rows.positions.size() * sizeof(int32_t));
  put(rows.rows.data(), rows.rows.size() * sizeof(float));

  const bool replaces = tree_.has_state(node);
  if (replaces) {
    if (tree_.state_pins(node) > 0) return;
    tree_.pin_state(node);
  }
  const bool room =
      tree_.make_state_room(static_cast<int32_t>(count), tree_.name_space(tree_.node(node)));
  if (replaces) tree_.unpin_state(node);
  if (!room) return;
  if (replaces) tree_.drop_state(node);
  std::vector<int32_t> pages = tree_.take_state_pages(static_cast<int32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    kv_.write(pages_.frame(pages[i]), bytes.data() + i * page_bytes);
    pages_.set_clean(pages[i]);
  }
  tree_.add_state(node, std::move(pages), true);
  tree_.unpin_state(node);
}

// --- in flight -----------------------------------------------------------------------------------

NodeId Texts::computing(NodeId root, std::span<const int32_t> tokens) const {
  const auto found = computing_.find(hash_of(root, tokens));
  if (found == computing_.end()) return kNoNode;
  // Another text may have the same hash, and the rows of a step that has been are gone.
  const auto [of, own] = found->second;
  if (of != root) return kNoNode;
  const Match m = tree_.match(own, tokens);
  const bool same = static_cast<size_t>(m.matched) == tokens.size() &&
                    m.offset == tree_.node(m.node).length && m.computed == 0;
  return same ? own : kNoNode;
}

void Texts::begin(NodeId root, std::span<const int32_t> tokens, NodeId own) {
  computing_.try_emplace(hash_of(root, tokens), Computing{root, own});
}

void Texts::end(NodeId root, std::span<const int32_t> tokens, NodeId own) noexcept {
  const auto found = computing_.find(hash_of(root, tokens));
  if (found != computing_.end() && found->second.own == own) computing_.erase(found);
}

}  // namespace prefix
