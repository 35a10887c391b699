#include "engine/schedule/bands.h"

#include <algorithm>
#include <utility>

#include "base/page.h"
#include "base/status.h"

namespace prefix {

Bands::Bands(Tree& tree, PagePool& pages, int32_t row_budget)
    : tree_(tree),
      pages_(pages),
      window_pages_(static_cast<int32_t>(pages_for(tree.window()))),
      step_pages_(static_cast<int32_t>(pages_for(row_budget))) {}

void Bands::admit(Sequence& s, int32_t tokens, int32_t name_space) {
  const int32_t wanted = std::min(least() + step_pages_, pages_between(0, tokens) + 1);
  tree_.make_room(wanted, name_space);
  const int32_t frames = std::min(wanted, pages_.available());
  if (frames < std::min(wanted, least()))
    fail(Code::kCacheFull, "a sequence of ", tokens, " tokens needs ", least(), " pages of ",
         kPageTokens, " tokens for its window of ", tree_.window(), ", but only ",
         std::max(0, frames), " of ", pages_.capacity(), " (cache_bytes) are free or evictable");
  if (sharers_.capacity() <= bands_) sharers_.reserve(2 * bands_ + 1);
  pages_.add_band(frames);
  s.band = frames;
  ++bands_;
}

int32_t Bands::next_row(const Sequence& s) const {
  if (s.recompute_next < s.recompute_end) return s.recompute_next;
  return std::min(tree_.computed_end(s.node, s.length), s.length - 1);
}

int32_t Bands::fill(const Sequence& s) {
  if (s.band == 0) return s.length;
  const int32_t next = next_row(s);
  int32_t left = s.band - (next / kPageTokens - seen(next) / kPageTokens);
  std::vector<NodeId> path;  // from the node of `next` on, deepest first
  for (NodeId id = tree_.node_at(s.node, s.length - 1); tree_.node(id).end() > next;
       id = tree_.node(id).parent)
    path.push_back(id);
  int32_t end = next;
  for (; !path.empty(); path.pop_back()) {
    const Node& n = tree_.node(path.back());
    const int32_t until = std::min(n.end(), s.length);
    const bool in_mid_page = end == n.start && n.start % kPageTokens != 0;
    const bool shares = in_mid_page && tree_.node(n.parent).last_page == n.first_page;
    // A branch in mid-page has a page of its own beside the one that it copies from.
    if (end == next && in_mid_page && !shares) --left;
    const bool counted = shares && end > next;
    const int32_t pages = pages_between(end, until) - (counted ? 1 : 0);
    if (pages > left) {
      // A branch in mid-page that no frame is left for waits for the next step.
      end = std::max(end, (end / kPageTokens + left + (counted ? 1 : 0)) * kPageTokens);
      break;
    }
    left -= pages;
    end = until;
  }
  PREFIX_CHECK(end > next);
  return tree_.fill_sliding(s.node, tree_.computed_end(s.node, s.length), end);
}

// Until the next call.
const std::vector<Bands::Sharer>& Bands::sharers(const Sequence& s, const Running& running) {
  sharers_.clear();
  for (const auto& request : running)
    for (const Sequence& other : request->sequences) {
      if (&other == &s || other.band == 0) continue;
      const int32_t common = std::min({tree_.common(s.node, other.node), s.length, other.length});
      if (common > 0) sharers_.push_back({other.node, other.length, common, next_row(other)});
    }
  return sharers_;
}

// Whether a sequence has still to read a page of the part that it shares, or to copy from it.
bool Bands::reads(const Tree::SlidingPage& page, const Sharer& sharer) const {
  if (page.begin >= sharer.common) return false;
  const int32_t end = (page.begin / kPageTokens + 1) * kPageTokens;
  const bool one_way = sharer.common >= end && !page.source;
  if (one_way) return end > seen(sharer.next);
  // It may leave the page for one of its own, and that behind the place where the two paths part.
  const int32_t last = std::min(end, sharer.length) - 1;
  int32_t leaves = end;
  for (NodeId id = tree_.node_at(sharer.node, last); tree_.page_of(id, last) != page.page;
       id = tree_.node(id).parent)
    leaves = tree_.node(id).start;
  return leaves == end ? end > seen(sharer.next) : sharer.next <= leaves;
}

bool Bands::is_read(const Tree::SlidingPage& page, const std::vector<Sharer>& sharers) const {
  return std::ranges::any_of(sharers, [&](const Sharer& sharer) { return reads(page, sharer); });
}

void Bands::give_back(const Running& running) {
  for (const auto& request : running)
    for (const Sequence& s : request->sequences) {
      if (s.band == 0 || pages_.sliding_pages() == 0) continue;
      const int32_t next = next_row(s);
      const std::vector<Sharer>& readers = sharers(s, running);
      Hollow hollow;
      tree_.for_each_sliding(s.node, s.length, [&](const Tree::SlidingPage& page) {
        if (page.source ? next <= page.end : page.end > seen(next)) return;
        if (!is_read(page, readers)) make_hollow(page, hollow);
      });
      if (hollow.begin < hollow.end) tree_.prune_behind(s.node, hollow.begin, hollow.end);
    }
}

void Bands::make_hollow(const Tree::SlidingPage& page, Hollow& hollow) {
  pages_.empty(page.page);
  hollow.begin = std::min(hollow.begin, page.begin);
  // To the end of the page: where the path leaves it, others may go on in it.
  hollow.end = std::max(hollow.end, (page.begin / kPageTokens + 1) * kPageTokens);
}

void Bands::release(Sequence& s, const Running& running) {
  if (s.band == 0) return;
  const std::vector<Sharer>& readers = sharers(s, running);
  const auto for_each_unread = [&](const auto& f) {
    tree_.for_each_sliding(s.node, s.length, [&](const Tree::SlidingPage& page) {
      if (!is_read(page, readers)) f(page);
    });
  };
  // The last window stays, and before it what the frames of the band suffice for.
  int32_t frames = s.band;
  const auto keep_from = [&](int32_t block) {
    for_each_unread([&](const Tree::SlidingPage& page) {
      if (frames == 0 || page.begin / kPageTokens < block) return;
      --frames;
      pages_.settle(page.page);
    });
  };
  const int32_t next = std::min(tree_.computed_end(s.node, s.length), s.length - 1);
  keep_from(seen(next) / kPageTokens);
  keep_from(seen(next) / kPageTokens - frames);
  Hollow hollow;
  for_each_unread([&](const Tree::SlidingPage& page) { make_hollow(page, hollow); });
  if (hollow.begin < hollow.end) tree_.prune_behind(s.node, hollow.begin, hollow.end);

  pages_.remove_band(std::exchange(s.band, 0));
  --bands_;
  // Frames that others have of it, before rows that are read again, count for the pool.
  if (pages_.sliding_pages() <= pages_.bands()) return;
  for (const auto& request : running)
    for (const Sequence& other : request->sequences) {
      if (other.band == 0) continue;
      tree_.for_each_sliding(other.node, other.length, [&](const Tree::SlidingPage& page) {
        if (pages_.sliding_pages() > pages_.bands()) pages_.settle(page.page);
      });
    }
}

}  // namespace prefix
