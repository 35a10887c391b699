#include "engine/schedule/accounting.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace prefix {

void Accounting::count_usage(RunningRequest& request, const Sequence& s, const Match& match,
                             int32_t from) {
  Usage& usage = request.result().usage;
  const int64_t before = usage.cached + usage.shared;
  for (NodeId id = s.node; id != kNoNode; id = tree_.node(id).parent) {
    const Node& n = tree_.node(id);
    const int32_t begin = std::max(from, n.start);
    const int32_t end = std::min(n.end(), match.matched);
    const int32_t computed = std::min(end, n.start + n.computed);
    if (begin >= end) continue;
    const int64_t cached =
        n.job == static_cast<uint32_t>(request.state->id) ? 0 : std::max(0, computed - begin);
    usage.cached += cached;
    usage.shared += end - begin - cached;
  }
  usage.cached += std::max(0, s.found - s.length);  // a last token that is only scored
  const int64_t total = std::max(0, s.length + s.behind - from);
  usage.prompt += total;
  usage.computed += total - (usage.cached + usage.shared - before);
}

// Of every token once: the prompt and the first choice together, of others the choice alone.
void Accounting::count_misses(RunningRequest& request, bool whole) {
  const RequestSpec& spec = request.spec();
  MissCounts& missed = request.result().usage.missed;
  if (whole) {
    misses_.count_whole(spec.name_space, spec.tokens, request.sequences.front().found > 0, missed);
    return;
  }
  const auto prompt = static_cast<int32_t>(spec.tokens.size());
  const auto whole_pages =
      std::span(spec.tokens).first(static_cast<size_t>(prompt / kPageTokens * kPageTokens));
  MissReasons::Seen seen;  // of the prompt: the pages that all choices have in common
  for (const Sequence& s : request.sequences) {
    if (s.choice < 0) {
      misses_.count(spec.name_space, {}, spec.tokens, s.found, missed);
      continue;
    }
    const bool first = s.choice == 0;
    if (first)
      seen = misses_.count(spec.name_space, seen, whole_pages,
                           std::min(s.found, static_cast<int32_t>(whole_pages.size())), missed);
    const std::vector<int32_t>& choice = spec.choices[static_cast<size_t>(s.choice)];
    std::vector<int32_t> behind(spec.tokens.begin() + std::ssize(whole_pages), spec.tokens.end());
    behind.insert(behind.end(), choice.begin(), choice.end());
    misses_.count(spec.name_space, seen, behind, first ? s.found : std::max(s.found, prompt),
                  missed);
    seen.reason = MissReasons::Seen{}.reason;  // the others have nothing to add to it
  }
}

void Accounting::count_recomputed(RunningRequest& request, const Sequence& s, int32_t position,
                                  int32_t rows) {
  if (s.choice >= 0 && position < static_cast<int32_t>(request.spec().tokens.size()) &&
      std::exchange(request.end_counted, true))
    return;
  Usage& usage = request.result().usage;
  int64_t& known = usage.cached > 0 ? usage.cached : usage.shared;
  --known;
  ++(rows > 0 ? usage.computed : usage.shared);
  usage.missed.granularity += rows;
}

void Accounting::count_scanned(RunningRequest& request, int32_t tokens) {
  Usage& usage = request.result().usage;
  const int64_t cached = std::min<int64_t>(usage.cached, tokens);
  const int64_t shared = std::min<int64_t>(usage.shared, tokens - cached);
  usage.cached -= cached;
  usage.shared -= shared;
  usage.computed += cached + shared;
  usage.missed.state += cached + shared;
}

void Accounting::count_draft(RunningRequest& request, int32_t drafted, int32_t accepted) noexcept {
  Usage& usage = request.result().usage;
  usage.drafted += drafted;
  usage.drafts_accepted += accepted;
  counters_.drafted += drafted;
  counters_.drafts_accepted += accepted;
}

void Accounting::count_token(RunningRequest& request, int64_t age_ns) noexcept {
  const RequestResult& result = request.result();
  if (result.usage.generated == 1) {
    histograms_.first_token.add(static_cast<double>(result.timing.first_us) * 1e-6);
  } else {
    histograms_.between_tokens.add(static_cast<double>(age_ns - request.last_token_ns) * 1e-9);
  }
  request.last_token_ns = age_ns;
}

void Accounting::count_finished(Task task, const RequestResult& result,
                                JobTotals& totals) noexcept {
  const Usage& u = result.usage;
  totals.tokens_given += u.prompt;
  totals.tokens_cached += u.cached;
  totals.tokens_shared += u.shared;
  totals.tokens_computed += u.computed;
  totals.tokens_generated += u.generated;
  counters_.given += u.prompt;
  counters_.cached += u.cached;
  counters_.shared += u.shared;
  counters_.computed += u.computed;
  counters_.generated += u.generated;
  counters_.missed += u.missed;
  ++(result.status == Code::kOk ? counters_.finished : counters_.failed);
  if (result.status != Code::kOk) ++totals.failed;
  if (result.status == Code::kOk) histograms_.add(task, result);
}

}  // namespace prefix
