#include "engine/schedule/known_logprobs.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <span>
#include <vector>

namespace prefix {

int32_t take_logprobs(const Tree& tree, const RunningRequest& request, Sequence& s,
                      const Match& match) {
  const std::span<float> wanted = request.logprobs(s);
  const int32_t from = s.length + s.behind - static_cast<int32_t>(wanted.size());
  const auto there = static_cast<size_t>(std::max(0, match.matched - from));
  tree.get_logprobs(match.node, from, wanted.first(there));
  if (there < wanted.size() && match.matched >= from)
    wanted[there] =
        tree.next_logprob(match.node, match.matched, request.token_at(s, match.matched));
  const auto to_read = [](float logprob) { return std::isnan(logprob); };
  s.outputs_left = static_cast<int32_t>(std::ranges::count_if(wanted, to_read));
  return from - 1 + static_cast<int32_t>(std::ranges::find_if(wanted, to_read) - wanted.begin());
}

bool knows_logprobs(const Tree& tree, NodeId root, const RequestSpec& spec) noexcept {
  const auto are_known = [&](std::span<const int32_t> tokens, size_t from) {
    const std::span<const int32_t> path = tokens.first(tokens.size() - 1);
    const Match match = tree.match(root, path);
    if (match.matched < std::ssize(path)) return false;
    std::vector<float> logprobs(path.size() - from);
    tree.get_logprobs(match.node, static_cast<int32_t>(from), logprobs);
    logprobs.push_back(tree.next_logprob(match.node, match.matched, tokens.back()));
    return std::ranges::none_of(logprobs, [](float logprob) { return std::isnan(logprob); });
  };
  try {
    if (spec.top_logprobs > 0) return false;
    if (spec.task == Task::kLogprobs) return are_known(spec.tokens, static_cast<size_t>(spec.from));
    if (spec.task != Task::kChoices) return false;
    return std::ranges::all_of(spec.choices, [&](const std::vector<int32_t>& choice) {
      std::vector<int32_t> path = spec.tokens;
      path.insert(path.end(), choice.begin(), choice.end());
      return are_known(path, spec.tokens.size());
    });
  } catch (const std::bad_alloc&) {
    return false;  // then it is computed
  }
}

void keep_logprobs(Tree& tree, const RunningRequest& request) noexcept {
  for (const Sequence& s : request.sequences) {
    std::span<const float> all = request.logprobs(s);
    if (all.empty()) continue;
    if (s.behind > 0) {
      tree.set_next_logprob(s.node, s.length, request.token_at(s, s.length), all.back());
      all = all.first(all.size() - 1);
    }
    tree.set_logprobs(s.node, s.length - static_cast<int32_t>(all.size()), all);
  }
}

}  // namespace prefix
