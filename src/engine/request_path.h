// The path of a request in the tree: how long it may become, and which of its rows are read.
//
//   prompt                      | behind it: one choice of several, or what is generated
//   0 . . output_begin . . n-1  |  . . output_end      `output_end` is behind the last row read
//
// `max_positions` is that of the model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/page.h"
#include "engine/request.h"

namespace prefix {

// Tokens that a generation may write.
inline int32_t growth(const RequestSpec& spec, int32_t max_positions) {
  if (spec.task != Task::kGenerate) return 0;
  return std::min(spec.sampling.max_tokens,
                  max_positions - static_cast<int32_t>(spec.tokens.size()) + 1);
}

// Growing by so many tokens takes their pages, one for a branch and one for a start in mid-page.
inline int32_t pages_to_grow(int32_t tokens) { return pages_between(0, tokens) + 2; }

// By which the rotary frequencies are chosen: choices have those of the longest.
inline int32_t max_length(const RequestSpec& spec, int32_t max_positions) {
  auto behind = static_cast<size_t>(spec.task == Task::kGenerate ? spec.sampling.max_tokens : 0);
  for (const std::vector<int32_t>& choice : spec.choices) behind = std::max(behind, choice.size());
  const auto most = static_cast<size_t>(max_positions);
  return static_cast<int32_t>(std::min(most, spec.tokens.size() + behind));
}

// Tokens of the longest path of a request when it ends, at most.
inline int32_t longest_path(const RequestSpec& spec, int32_t max_positions) {
  auto length = static_cast<int32_t>(spec.tokens.size());
  for (const std::vector<int32_t>& choice : spec.choices)
    length = std::max(length, static_cast<int32_t>(spec.tokens.size() + choice.size()));
  if (spec.scores_last()) --length;
  return length + growth(spec, max_positions);
}

// Of a prompt: the tokens before the first one whose row is read, all of them when none is. Rows of
// tokens that are in the cache are computed once more where they are read.
inline int32_t output_begin(const RequestSpec& spec) {
  const auto prompt = static_cast<int32_t>(spec.tokens.size());
  if (spec.task == Task::kEmbed && spec.pooling != Pooling::kLast)
    return spec.positions.empty() ? 0 : spec.positions.front();
  return spec.task == Task::kWarm       ? prompt
         : spec.task == Task::kLogprobs ? spec.from - 1
                                        : prompt - 1;
}

// Of a path of `length` tokens.
inline int32_t output_end(const RequestSpec& spec, int32_t length) {
  if (spec.task == Task::kEmbed && spec.pooling == Pooling::kFirst) return 1;
  if (spec.task == Task::kEmbed && !spec.positions.empty()) return spec.positions.back() + 1;
  return spec.task == Task::kLogprobs && !spec.scores_last() ? length - 1 : length;
}

}  // namespace prefix
