// States of recurrent layers in the tiers below: which is looked for, and how it comes and goes.
#include <algorithm>
#include <new>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "cache/lower_tiers.h"
#include "cache/page_install.h"

namespace prefix {
namespace {

// Lengths that a tier is asked for at once: others want a place in its queue too.
constexpr size_t kPlaces = 1024;
// Of the states that a tier says it has, so many are asked for:
// of those the deepest may be damaged.
constexpr size_t kTries = 4;

int32_t full_pages(int32_t length) { return length / kPageTokens; }

}  // namespace

// --- fetching ------------------------------------------------------------------------------------

// Null: the tree has the deepest state that would help.
std::shared_ptr<Fetch> LowerTiers::find_state(NodeId root, std::span<const int32_t> tokens,
                                              const Match& match, int32_t limit) const {
  const NodeId known = tree_.state_at(match.node, std::min(limit, match.computed));
  const int32_t from = known == kNoNode ? 0 : tree_.node(known).end();
  if (from >= limit) return nullptr;
  const auto f = std::make_shared<Fetch>();
  f->stage = Fetch::kFindState;
  f->root = root;
  tokens = tokens.first(static_cast<size_t>(limit));
  f->tokens.assign(tokens.begin(), tokens.end());
  f->known_state = from;
  const int32_t first = full_pages(from);
  f->chain = keys_.keys_behind(match.node, first, tokens, full_pages(limit));
  f->chain.insert(f->chain.begin(),
                  first > 0 ? keys_.key(match.node, first - 1) : keys_.root(root));
  for (int32_t length = limit; length > from; --length)
    f->keys.push_back(state_key(parent_of(*f, length), tail_of(*f, length), length, 0));
  // Who shares the next page waits.
  const int32_t next = std::min((first + 1) * kPageTokens, limit);
  f->next = f->keys[static_cast<size_t>(limit - next)];
  return f;
}

// The tokens behind the last full page of a prefix.
std::span<const int32_t> LowerTiers::tail_of(const Fetch& f, int32_t length) const {
  const auto begin = static_cast<size_t>(full_pages(length)) * kPageTokens;
  return std::span(f.tokens).subspan(begin, static_cast<size_t>(length) - begin);
}

const PageKey& LowerTiers::parent_of(const Fetch& f, int32_t length) const {
  return f.chain[static_cast<size_t>(full_pages(length) - full_pages(f.known_state))];
}

// As next_tier(), and for what this tier has not been asked for yet.
bool LowerTiers::ask_for_states(Fetch& f) {
  for (; f.tier < tiers_.size(); ++f.tier, f.places = 0) {
    if (f.places == f.keys.size()) continue;
    if (f.places == 0 && !worth_it(rates_[f.tier].lookup, 1, f.chain.size())) continue;
    const size_t count = std::min(kPlaces, f.keys.size() - f.places);
    f.stage = Fetch::kFindState;
    f.buffers.clear();
    f.asked = limits_.now();
    f.ticket = tiers_[f.tier].tier->exists(std::span(f.keys).subspan(f.places, count));
    f.places += count;
    return true;
  }
  return false;
}

// True when there is nothing more to come.
bool LowerTiers::advance_state(Fetch& f) {
  const bool overdue = limits_.now() >= f.deadline;
  const bool done = f.ticket->done();
  if (!done && !overdue) return false;
  learn_cost(f);
  if (!done) f.ticket->cancel();
  if (f.stage == Fetch::kReadState) {
    if (done && state_usable(f)) return begin_pages(f);
    f.lengths.pop_back();
  } else if (done) {
    const size_t count = f.ticket->pages();
    const size_t deepest = f.tokens.size() - (f.places - count);
    f.lengths.clear();
    for (size_t i = 0; i < count && f.lengths.size() < kTries; ++i)
      if (f.ticket->hit(i)) f.lengths.insert(f.lengths.begin(), static_cast<int32_t>(deepest - i));
  }
  if (overdue) {
    ++counters_.timeouts;
    return true;
  }
  if (!f.lengths.empty()) {
    const int32_t tokens = f.lengths.back() - f.known_state;
    const auto pages = static_cast<size_t>(pages_between(0, tokens));
    if (worth_it(rates_[f.tier].page, static_cast<size_t>(state_pages_) + pages, pages))
      return !read_state(f);
    counters_.skipped_tokens += tokens;
    f.lengths.clear();
    f.places = f.keys.size();  // less would be worth less
  }
  return !ask_for_states(f);
}

// As read().
bool LowerTiers::read_state(Fetch& f) {
  const int32_t length = f.lengths.back();
  const std::span<const int32_t> tail = tail_of(f, length);
  std::vector<PageKey> keys;
  for (int32_t page = 0; page < state_pages_; ++page)
    keys.push_back(state_key(parent_of(f, length), tail, length, page));
  keys.push_back(state_key(parent_of(f, length), tail, length, asked_mark()));
  if (!tail.empty()) keys.push_back(page_key(parent_of(f, length), tail));
  f.stage = Fetch::kReadState;
  return get(f, keys);
}

bool LowerTiers::state_usable(const Fetch& f) const {
  for (size_t i = 0; i < f.buffers.size(); ++i) {
    if (i == static_cast<size_t>(asked_mark())) continue;
    if (!f.ticket->hit(i)) return false;
    const PageBuffer& page = f.buffers[i];
    const bool of_state = i < static_cast<size_t>(state_pages_);
    if (of_state ? !ops::all_finite(page.data.get(), page.size, ops::KvType::kF32)
                 : !kv_.all_finite(page.data.get()))
      return false;
  }
  return true;
}

// The state is here: now what the tree lacks of the full pages before it. True: that is nothing, or
// it cannot be had.
bool LowerTiers::begin_pages(Fetch& f) {
  const int32_t length = f.lengths.back();
  f.state_asked = f.ticket->hit(static_cast<size_t>(asked_mark()));
  f.state = std::exchange(f.buffers, {});
  f.stage = Fetch::kPages;
  f.tokens.resize(static_cast<size_t>(length));
  f.keys.clear();
  f.at = f.known = f.tier = 0;
  const Match match = tree_.match(f.root, f.tokens);
  f.first_block = full_pages(match.matched);
  // What the tree has lost of the pages before these since cannot be had from here.
  if (match.computed < match.matched || f.first_block < full_pages(f.known_state)) return true;
  const int32_t before = full_pages(f.known_state) - 1;  // the first of the chain
  f.keys.assign(f.chain.begin() + f.first_block - before,
                f.chain.begin() + full_pages(length) - before);
  f.length = length;
  return !next_tier(f);
}

// All pages before it are in the tree, if they did not go again.
void LowerTiers::install_state(Fetch& f) {
  const Match match = tree_.match(f.root, f.tokens);
  if (full_pages(match.matched) < full_pages(f.length)) return;
  try {
    const NodeId id =
        install_pages(tree_, pages_, kv_, f.root, f.tokens, use_of(f),
                      [&](int32_t) -> const std::byte* { return f.state.back().data.get(); });
    if (id == kNoNode) return;
    counters_.fetched_tokens += f.length - match.matched;
    try {
      install_state(f, id);
    } catch (const std::bad_alloc&) {  // the pages are there, the state is not
    }
    tree_.unlock(id, true);
  } catch (const Error&) {
    // no room
  } catch (const std::bad_alloc&) {
  }
}

// On a path that is there, and held.
void LowerTiers::install_state(const Fetch& f, NodeId path) {
  const int64_t growth = reserved(f.root);
  const auto taken = static_cast<int32_t>(pages_for(growth));
  if (!tree_.make_state_room(state_pages_, tree_.name_space(tree_.node(path)), taken)) return;
  const NodeId node =
      prefix::install_state(tree_, pages_, kv_, path, f.length, state_pages_, growth,
                            [&](int32_t i) { return f.state[static_cast<size_t>(i)].data.get(); });
  if (node == kNoNode) return;
  if (f.state_asked) tree_.exempt_state(node);
  for (const int32_t page : tree_.state_pages(node)) pages_.set_saved(page, saved_now());
}

// --- saving --------------------------------------------------------------------------------------

// The page of its last tokens goes along as it is now: others may fill it later, so that it is not
// marked.
void LowerTiers::add_state(Copies& copies, NodeId node) {
  const Node& n = tree_.node(node);
  const std::vector<int32_t>& pages = tree_.state_pages(node);
  const auto saved = [&](int32_t page) { return is_saved(page); };
  if (std::all_of(pages.begin(), pages.end(), saved)) return;
  const int32_t full = full_pages(n.end());
  const PageKey parent = full > 0 ? keys_.key(node, full - 1) : keys_.root(tree_.root(n));
  const auto tail_tokens = static_cast<size_t>(n.end() - full * kPageTokens);
  const std::span<const int32_t> tail(pages_.tokens(n.last_page), tail_tokens);
  if (!tail.empty()) add_copy(copies, page_key(parent, tail), n.last_page, false);
  for (size_t i = 0; i < pages.size(); ++i)
    if (!saved(pages[i]))
      add_copy(copies, state_key(parent, tail, n.end(), static_cast<int32_t>(i)), pages[i], true);
  if (tree_.state_is_exempt(node))
    add_copy(copies, state_key(parent, tail, n.end(), asked_mark()), pages.front(), false);
}

}  // namespace prefix
