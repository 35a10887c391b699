// Drafts: a generation guesses what comes next, and one step checks several tokens of it.
//
//   path      ... 7 4 9 | 2 5 5 8        2 5 5 8 is the draft (guesses.h)
//   rows            9     2 5 5 8        each row says which token comes behind it:
//   tokens          2     5 5 3          2 5 5 stay, 3 comes besides, 8 is taken back
//
// The tokens are those of a generation without drafts: each is drawn from the row that a step of
// its own would have computed, by the sampler as it would have been there. What the cache has
// behind the path is only read once more; else the path grows by the draft and shrinks again.
#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/page.h"
#include "engine/schedule/guesses.h"
#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

// Of a step of generations: up to so many rows are computed in little more time than one, since the
// weights are read once for all.
constexpr int32_t kCheapRows = 32;

}  // namespace

// Rows that the drafts of `generations` may add to a step together.
int32_t Scheduler::rows_for_drafts(int32_t budget, size_t generations) {
  return std::max(0, std::min(budget, kCheapRows) - static_cast<int32_t>(generations));
}

// Makes a draft of at most `limit` tokens and adds its rows to the step; returns how many. Without
// memory there is none.
int32_t Scheduler::draft(RunningRequest& request, Sequence& s, int32_t limit) {
  Draft& d = s.draft;
  d.accepted = 0;
  limit = std::min(limit, s.reserved_tokens - 1);  // one comes behind the draft
  if (limit <= 0 || states_.on() || tree_.window() > 0) return 0;
  limit = std::min({limit, request.spec().draft_tokens, d.length.next()});
  if (limit == 0) return 0;
  try {
    if (!guess(request, s, static_cast<size_t>(limit))) return 0;
    d.samplers.clear();
    d.samplers.reserve(d.tokens.size());
    for (const int32_t token : d.tokens) {
      std::optional<Sampler> next = (d.samplers.empty() ? *s.sampler : d.samplers.back()).fork();
      if (!next) {
        d.tokens.clear();
        return 0;
      }
      next->accept(token);
      d.samplers.push_back(std::move(*next));
    }
    const auto top = static_cast<size_t>(request.spec().top_logprobs);
    s.top.resize(top * (1 + d.tokens.size()));
  } catch (const std::bad_alloc&) {
    d.tokens.clear();
    return 0;
  }
  int32_t rows = 0;
  if (d.cached) {
    for (int32_t i = 0; i < d.count(); ++i) rows += builder_.recompute(d.node, s.length + i);
  } else {
    grow_by_draft(request, s);
    rows = builder_.take(s.node, s.length + d.count(), d.count());
  }
  drafted_ = true;
  accounting_.count_draft(request, d.count(), 0);
  return rows;
}

// False: nothing is guessed. A token that ends the generation is not stored, so it is none of the
// draft; a path that grows has only the pages that were set aside for it.
bool Scheduler::guess(const RunningRequest& request, Sequence& s, size_t limit) {
  Draft& d = s.draft;
  CachedGuess cached = guess_from_cache(tree_, s.node, s.length, limit);
  d.cached = !cached.tokens.empty();
  if (d.cached) {
    d.tokens = std::move(cached.tokens);
    d.node = cached.node;
  } else if (tree_.grows_alone(s.node, s.length, use_of(request))) {
    const int32_t room = (pages_between(0, s.length) + s.reserved_pages) * kPageTokens - s.length;
    d.tokens = guess_from_text(request.text(), std::min(limit, static_cast<size_t>(room)));
  }
  const auto end =
      std::ranges::find_if(d.tokens, [&](int32_t token) { return ends(request, token); });
  d.tokens.erase(end, d.tokens.end());
  return !d.tokens.empty();
}

// As far as there is memory.
void Scheduler::grow_by_draft(RunningRequest& request, Sequence& s) {
  Draft& d = s.draft;
  const AttachOptions use = use_of(request);
  int32_t grown = 0;
  try {
    for (; grown < d.count(); ++grown)
      extend(request, s, d.tokens[static_cast<size_t>(grown)], use);
  } catch (const std::bad_alloc&) {
    d.tokens.resize(static_cast<size_t>(grown));
  }
  s.length -= grown;
  d.node = s.node;
}

// Finds which tokens of the drafts are those that the model says. What was read behind the others
// is dropped, and they leave their paths.
void Scheduler::settle_drafts() {
  if (!std::exchange(drafted_, false)) return;
  for (size_t at = 0; at < outputs_.size();) {
    const size_t first = at++;  // that of the path itself, before those of its draft
    while (at < outputs_.size() && outputs_[at].draft > 0) ++at;
    check_draft(std::span(outputs_).subspan(first, at - first));
  }
  std::erase_if(outputs_, [](const Output& o) {
    return o.draft > o.request->sequences[o.sequence].draft.accepted;
  });
  for (const auto& request : running_)
    for (Sequence& s : request->sequences)
      if (s.draft.count() > 0) end_draft(*request, s);
}

// A token whose key or value is not finite is left to a step of its own, which says so.
void Scheduler::check_draft(std::span<const Output> outputs) {
  Draft& d = outputs[0].request->sequences[outputs[0].sequence].draft;
  for (size_t i = 0; i + 1 < outputs.size(); ++i) {
    if (outputs[i].status != Code::kOk || outputs[i].sampled.token != d.tokens[i]) return;
    if (!d.cached && not_finite_[static_cast<size_t>(outputs[i + 1].row)] != 0) return;
    ++d.accepted;
  }
}

void Scheduler::end_draft(RunningRequest& request, Sequence& s) {
  Draft& d = s.draft;
  const int32_t wrong = d.count() - d.accepted;
  accounting_.count_draft(request, 0, d.accepted);
  d.length.settle(d.count(), d.accepted, request.spec().draft_tokens);
  if (!d.cached) {
    d.kept = d.accepted;
    if (wrong > 0) take_back(request, s, wrong);
  }
  d.tokens.clear();
}

// The last `wrong` tokens of a path that its draft made longer. A page with numbers that are not
// finite is no place for other tokens: with such a row they stay behind the path, where they are
// pending, and it goes on as a branch.
void Scheduler::take_back(RunningRequest& request, Sequence& s, int32_t wrong) {
  const Draft& d = s.draft;
  s.reserved_tokens += wrong;
  uses_.reserve(namespace_of(request), wrong);
  for (int32_t i = 0; i < d.count(); ++i) {
    const int32_t row = builder_.row_of(s.node, s.length + i);
    if (row >= 0 && not_finite_[static_cast<size_t>(row)] != 0) return;
  }
  const int32_t pages = tree_.retreat(s.node, s.length + d.accepted);
  pages_.reserve(pages);
  s.reserved_pages += pages;
}

}  // namespace prefix
