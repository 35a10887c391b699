#include "cache/lower_tiers.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/status.h"
#include "cache/page_install.h"

namespace prefix {
namespace {

constexpr size_t kMaxFetches = 16;
// A tier that is too slow is tried again after so many times.
constexpr int64_t kTryAgain = 32;
// Steps below this many rows say little about the cost of a token.
constexpr int64_t kMeasuredRows = 32;

void learn(double& mean, double value) { mean = mean == 0 ? value : mean + (value - mean) / 4; }

size_t leading_hits(const Ticket& ticket) {
  size_t n = 0;
  while (ticket.hit(n)) ++n;
  return n;
}

// With so much memory for what each reads, or less; besides that it holds a state.
size_t fetches_for(size_t read_bytes, size_t state_bytes) {
  return std::max<size_t>(1, kMaxFetches * read_bytes / (read_bytes + state_bytes));
}

}  // namespace

LowerTiers::LowerTiers(std::vector<LowerTier> tiers, Tree& tree, PagePool& pages, KvMemory& kv,
                       PageKeys& keys, std::chrono::milliseconds timeout, LowerTierLimits limits,
                       int32_t state_pages)
    : tiers_(std::move(tiers)),
      rates_(tiers_.size()),
      tree_(tree),
      pages_(pages),
      kv_(kv),
      keys_(keys),
      timeout_(timeout),
      limits_(std::move(limits)),
      state_pages_(state_pages),
      max_fetches_(fetches_for(limits_.read_bytes,
                               kv.layout().page_bytes() * static_cast<size_t>(state_pages))),
      written_bytes_(std::make_shared<std::atomic<size_t>>(0)) {}

// --- fetching ------------------------------------------------------------------------------------

std::shared_ptr<const Fetch> LowerTiers::lookup(NodeId root, std::span<const int32_t> tokens,
                                                const Match& match, int32_t limit, bool* own,
                                                const AttachOptions& use) {
  *own = true;
  if (match.computed < match.matched) return nullptr;  // being computed just now
  try {
    const std::shared_ptr<Fetch> f =
        state_pages_ > 0 ? find_state(root, tokens, match, limit) : find_pages(root, tokens, match);
    if (f) f->use = use;
    return begin(f, own);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Null: there is no full page behind the match.
std::shared_ptr<Fetch> LowerTiers::find_pages(NodeId root, std::span<const int32_t> tokens,
                                              const Match& match) const {
  const int32_t first = match.matched / kPageTokens;
  const auto last = static_cast<int32_t>(tokens.size()) / kPageTokens;
  if (first >= last) return nullptr;
  const auto f = std::make_shared<Fetch>();
  f->root = root;
  const auto whole = tokens.first(static_cast<size_t>(last) * kPageTokens);
  f->tokens.assign(whole.begin(), whole.end());
  f->first_block = first;
  f->keys = keys_.keys_behind(match.node, first, tokens, last);
  f->next = f->keys.front();
  return f;
}

std::shared_ptr<const Fetch> LowerTiers::begin(const std::shared_ptr<Fetch>& f, bool* own) {
  if (!f) return nullptr;
  if (const auto found = by_next_.find(f->next); found != by_next_.end()) {
    *own = false;
    return *found->second;
  }
  f->deadline = limits_.now() + timeout_;
  if (!(f->stage == Fetch::kPages ? next_tier(*f) : ask_for_states(*f))) return nullptr;
  list(fetches_.insert(fetches_.end(), f));
  return f;
}

// Without memory for it others fetch the same pages once more.
void LowerTiers::list(Place fetch) noexcept {
  try {
    by_next_.try_emplace((*fetch)->next, fetch);
  } catch (const std::bad_alloc&) {
  }
}

// A call of `times` such costs may take less time than to compute the pages, as far as is known.
bool LowerTiers::worth_it(Cost& cost, size_t times, size_t pages) const {
  const double computing = token_ns_ * kPageTokens * static_cast<double>(pages);
  if (cost.ns * static_cast<double>(times) < computing || token_ns_ == 0 ||
      ++cost.passed_by >= kTryAgain) {
    cost.passed_by = 0;
    return true;
  }
  return false;
}

// From what the call that is under way has taken so far. If it has ended, that was during the last
// step or after it: the step's time is not the tier's.
void LowerTiers::learn_cost(const Fetch& f) {
  const std::chrono::duration<double, std::nano> taken = limits_.now() - f.asked;
  const double ns = std::max(0.0, taken.count() - static_cast<double>(step_ns_));
  Rate& rate = rates_[f.tier];
  if (f.buffers.empty()) {
    learn(rate.lookup.ns, ns);
  } else {
    learn(rate.page.ns, ns / static_cast<double>(f.buffers.size()));
  }
}

// Asks tiers from f.tier on whether they have the rest; false when none is worth asking.
bool LowerTiers::next_tier(Fetch& f) {
  for (; f.tier < tiers_.size() && f.at < f.keys.size(); ++f.tier) {
    if (!worth_it(rates_[f.tier].lookup, 1, f.keys.size() - f.at)) continue;
    look_up(f);
    return true;
  }
  return false;
}

// Asks the tier for the next pages.
void LowerTiers::look_up(Fetch& f) {
  const size_t count = std::min(limits_.lookup_pages, f.keys.size() - f.at);
  f.looked_up = f.at + count;
  f.buffers.clear();
  f.asked = limits_.now();
  f.ticket = tiers_[f.tier].tier->exists(std::span(f.keys).subspan(f.at, count));
}

// Asks for the next pages of those that are known; false without memory for them.
bool LowerTiers::read(Fetch& f) {
  const size_t bytes = kv_.layout().page_bytes();
  const size_t count = std::min(f.known - f.at, std::max<size_t>(1, limits_.read_bytes / bytes));
  ++f.reads;
  return get(f, std::span(f.keys).subspan(f.at, count));
}

bool LowerTiers::get(Fetch& f, std::span<const PageKey> keys) {
  const size_t bytes = kv_.layout().page_bytes();
  try {
    f.buffers.resize(keys.size());
    for (PageBuffer& b : f.buffers)
      if (!b.data) b = {std::make_shared_for_overwrite<std::byte[]>(bytes), bytes};
  } catch (const std::bad_alloc&) {
    return false;
  }
  f.asked = limits_.now();
  f.ticket = tiers_[f.tier].tier->get(keys, f.buffers);
  return true;
}

// How many of the buffers can be used, from the first on. A page with a value that is not finite is
// a miss.
size_t LowerTiers::usable(const Fetch& f) const {
  size_t n = 0;
  while (f.ticket->hit(n) && kv_.all_finite(f.buffers[n].data.get())) ++n;
  return n;
}

// As the request will use it that waits for this, and so that what runs can still grow.
AttachOptions LowerTiers::use_of(const Fetch& f) const {
  AttachOptions use = f.use;
  use.job = 0;  // which did not compute it
  use.count_as_use = false;
  use.reserve_tokens = static_cast<int32_t>(std::min<int64_t>(reserved(f.root), INT32_MAX / 2));
  return use;
}

// Puts the first `count` buffers into the tree; false when they do not fit there (any more).
bool LowerTiers::install(Fetch& f, size_t count) {
  const auto begin = f.first_block + static_cast<int32_t>(f.at);
  const auto end = static_cast<size_t>(begin) + count;
  const auto tokens = std::span<const int32_t>(f.tokens).first(end * kPageTokens);
  // What the tree has lost of the pages before these since cannot be had from here.
  if (tree_.match(f.root, tokens).matched / kPageTokens < begin) return false;
  try {
    const NodeId id = install_pages(
        tree_, pages_, kv_, f.root, tokens, use_of(f), [&](int32_t block) -> const std::byte* {
          return f.buffers[static_cast<size_t>(block - begin)].data.get();
        });
    if (id == kNoNode) return false;
    // The node may reach beyond what came, when the path has been computed meanwhile.
    const Node& n = tree_.node(id);
    const int32_t own = std::min(n.length, static_cast<int32_t>(tokens.size()) - n.start);
    for_each_full_page(tree_, n, 0, own, [&](int32_t page, int32_t block) {
      if (block >= begin) pages_.set_saved(page, saved_now());
    });
    tree_.unlock(id, true);
  } catch (const Error&) {
    return false;  // no room
  } catch (const std::bad_alloc&) {
    return false;
  }
  counters_.fetched_tokens += static_cast<int64_t>(count) * kPageTokens;
  f.at += count;
  return true;
}

// True when there is nothing more to come.
bool LowerTiers::advance(Fetch& f) {
  if (f.stage != Fetch::kPages) return advance_state(f);
  const bool overdue = limits_.now() >= f.deadline;
  const bool reads = !f.buffers.empty();
  if (!f.ticket->done()) {
    if (!overdue) return false;
    ++counters_.timeouts;
    learn_cost(f);  // it takes longer still, but a tier that never answers must not stay unknown
    f.ticket->cancel();
    if (reads) install(f, usable(f));
    return true;
  }
  learn_cost(f);
  const size_t hits = reads ? usable(f) : leading_hits(*f.ticket);
  if (!reads) {
    f.known = f.at + hits;
    if (hits > 0 && !worth_it(rates_[f.tier].page, hits, hits)) {
      counters_.skipped_tokens += static_cast<int64_t>(hits) * kPageTokens;
      f.known = f.at;
    }
  } else {
    const bool complete = hits == f.buffers.size();
    if (hits > 0 && !install(f, hits)) return true;
    if (f.at == f.keys.size()) return true;
    if (overdue) {
      ++counters_.timeouts;
      return true;
    }
    if (!complete) f.known = f.at;
  }
  if (f.at < f.known) return !read(f);
  if (f.at == f.looked_up) {  // all that it was asked for has come: it may have what is behind
    look_up(f);
    return false;
  }
  ++f.tier;
  return !next_tier(f);
}

// As advance(). What has not come where memory ends will not.
bool LowerTiers::ends(Fetch& f) noexcept {
  try {
    return advance(f);
  } catch (const std::bad_alloc&) {
    f.ticket->cancel();
    return true;
  }
}

void LowerTiers::poll() {
  for (Place at = fetches_.begin(); at != fetches_.end();) {
    Fetch& f = **at;
    const bool wanted = at->use_count() > 1;  // by a request, not only by the list here
    if (!wanted) f.ticket->cancel();
    const size_t before = f.at;
    f.done = !wanted || ends(f);
    if (f.done && wanted && f.length > 0 && f.at == f.keys.size()) install_state(f);
    if (f.done) use_fetched(f);
    // Others that want the pages which came need not wait any more; a state comes last.
    const bool moved = state_pages_ == 0 && f.at > before;
    if (f.done || moved) {
      const auto found = by_next_.find(f.next);
      if (found != by_next_.end() && found->second == at) by_next_.erase(found);
    }
    if (f.done) {
      at = fetches_.erase(at);
    } else {
      if (moved) {
        f.next = f.keys[f.at];
        list(at);
      }
      ++at;
    }
  }
  step_ns_ = 0;
  std::erase_if(writing_, [](const TicketPtr& t) { return t->done(); });
  save_rests();
}

// The tiers see no use of the pages before those that they were asked for,
// and one after the other of what was read in pieces.
void LowerTiers::use_fetched(const Fetch& f) {
  if (f.at == 0 || (f.first_block == 0 && f.reads < 2)) return;
  const int32_t length = (f.first_block + static_cast<int32_t>(f.at)) * kPageTokens;
  const Match match = tree_.match(f.root, std::span(f.tokens).first(static_cast<size_t>(length)));
  if (match.computed == length) use_path(match.node, length);
}

void LowerTiers::forget(NodeId root) {
  for (Place at = fetches_.begin(); at != fetches_.end();) {
    const Place here = at++;
    Fetch& f = **here;
    if (f.root != root) continue;
    f.ticket->cancel();
    f.done = true;
    std::erase_if(by_next_, [&](const auto& entry) { return entry.second == here; });
    fetches_.erase(here);
  }
  std::erase_if(rests_, [&](const Rest& rest) { return rest.root == root; });
}

void LowerTiers::computed(int64_t rows, int64_t ns) {
  step_ns_ = ns;
  if (rows >= kMeasuredRows) learn(token_ns_, static_cast<double>(ns) / static_cast<double>(rows));
}

}  // namespace prefix
