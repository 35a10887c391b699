// Log-probs of tokens, each given the tokens before it. One is a property of the token's place in
// the tree, as its keys and values are: it is the same for every path through the token, and goes
// with it. They lie beside the tokens in their pages, so that a split moves nothing.
//
//   tokens       [ 5   9   12 ]──┬──[ 7   3 ]        after a request for those of 12 and 7,
//   log-probs      -   -  -0.4   │   -2.0  -         and none for those of 3 or 8
//                                └──[ 8 ]
//                                     -
//
// That of a token behind a path may be known without the token (next_logprobs.h).
//
// What comes from a tier or a snapshot has none: they are not in a page's bytes.
#include <algorithm>
#include <cmath>

#include "tree/tree.h"

namespace prefix {

template <typename F>
void Tree::for_each_piece_of_path(NodeId id, int32_t from, int32_t end, const F& f) const {
  if (from >= end) return;
  for (id = node_at(id, end - 1); nodes_[id].end() > from; id = nodes_[id].parent) {
    const Node& n = nodes_[id];
    int32_t position = std::max(from, n.start);
    for_each_piece(n, position - n.start, std::min(end, n.end()) - n.start,
                   [&](int32_t page, int32_t slot, int32_t count) {
                     f(page, slot, count, position);
                     position += count;
                   });
  }
}

void Tree::set_logprobs(NodeId id, int32_t from, std::span<const float> logprobs) noexcept {
  for_each_piece_of_path(id, from, from + static_cast<int32_t>(logprobs.size()),
                         [&](int32_t page, int32_t slot, int32_t count, int32_t position) {
                           if (float* const to = pages_.edit_logprobs(page))
                             std::copy_n(logprobs.begin() + (position - from), count, to + slot);
                         });
}

void Tree::get_logprobs(NodeId id, int32_t from, std::span<float> logprobs) const {
  for_each_piece_of_path(id, from, from + static_cast<int32_t>(logprobs.size()),
                         [&](int32_t page, int32_t slot, int32_t count, int32_t position) {
                           const auto to = logprobs.begin() + (position - from);
                           if (const float* const known = pages_.logprobs(page))
                             std::copy_n(known + slot, count, to);
                           else
                             std::fill_n(to, count, PagePool::kNotKnown);
                         });
}

Tree::Place Tree::next_place(NodeId id, int32_t length, int32_t token) const {
  id = node_at(id, length - 1);
  const int32_t offset = length - nodes_[id].start;
  if (offset == nodes_[id].length) return {child(id, token), 0};
  return this->token(nodes_[id], offset) == token ? Place{id, offset} : Place{};
}

void Tree::set_next_logprob(NodeId id, int32_t length, int32_t token, float logprob) noexcept {
  const Place next = next_place(id, length, token);
  if (next.node != kNoNode) return set_logprobs(next.node, length, {&logprob, 1});
  id = node_at(id, length - 1);
  if (nodes_[id].end() == length) next_logprobs_.set(id, length, token, logprob);
}

float Tree::next_logprob(NodeId id, int32_t length, int32_t token) const {
  const Place next = next_place(id, length, token);
  float known = PagePool::kNotKnown;
  if (next.node != kNoNode) get_logprobs(next.node, length, {&known, 1});
  return std::isnan(known) ? next_logprobs_.find(node_at(id, length - 1), length, token) : known;
}

bool Tree::knows_next(NodeId id, int32_t length, int32_t token) const {
  const Place next = next_place(id, length, token);
  if (next.node != kNoNode && next.offset < nodes_[next.node].computed) return true;
  return !std::isnan(next_logprob(id, length, token));
}

}  // namespace prefix
