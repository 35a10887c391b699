// What of the tree the tiers below are given: a copy of each page of a path that was computed.
#include <algorithm>
#include <new>
#include <utility>

#include "cache/lower_tiers.h"

namespace prefix {

// The mark of a page that the tiers are given now. It goes out of date, so that they are given
// again what is used for long: they do not see what is found in memory, and would let go of that
// first. A tier that has the page writes nothing.
uint32_t LowerTiers::saved_now() const {
  return 1 + static_cast<uint32_t>((limits_.now() - start_) / kSavedFor) % PagePool::kMaxSaved;
}

void LowerTiers::save(NodeId node, int32_t length) {
  try {
    length = tree_.whole_until(node, length);
    if (!save_path(node, length)) note_rest(node, length);
  } catch (const std::bad_alloc&) {  // another time
  }
}

void LowerTiers::note_rest(NodeId node, int32_t length) {
  if (rests_.size() >= limits_.rests) return;
  Rest rest{tree_.root(tree_.node(node)), {}};
  for (const NodeId id : path_to(node, length)) {
    const std::vector<int32_t> tokens = tree_.tokens(tree_.node(id));
    rest.tokens.insert(rest.tokens.end(), tokens.begin(), tokens.end());
  }
  rest.tokens.resize(static_cast<size_t>(length));
  rests_.push_back(std::move(rest));
}

void LowerTiers::save_rests() {
  try {
    while (rests_wait()) {
      const Rest& rest = rests_.front();
      const Match match = tree_.match(rest.root, rest.tokens);
      const int32_t there = match.computed;
      if (there > 0 && !save_path(match.node, tree_.whole_until(match.node, there))) return;
      rests_.pop_front();
    }
  } catch (const std::bad_alloc&) {  // another time
  }
}

// The nodes with the first `length` tokens of a path, from the root on.
std::vector<NodeId> LowerTiers::path_to(NodeId node, int32_t length) const {
  std::vector<NodeId> path;
  for (NodeId id = tree_.node_at(node, length - 1); tree_.node(id).length > 0;
       id = tree_.node(id).parent)
    path.push_back(id);
  std::reverse(path.begin(), path.end());
  return path;
}

// Tells the tiers of the full pages of a path, whose last ones should go first there.
void LowerTiers::use_path(NodeId node, int32_t length) {
  const int32_t pages = length / kPageTokens;
  if (pages == 0) return;
  try {
    std::vector<PageKey> keys;
    keys_.key(node, pages - 1);  // after which all are known
    for (const NodeId id : path_to(node, pages * kPageTokens)) {
      const Node& n = tree_.node(id);
      for_each_full_page(tree_, n, 0, std::min(n.length, pages * kPageTokens - n.start),
                         [&](int32_t page, int32_t) { keys.push_back(keys_.known(page)); });
    }
    for (const LowerTier& t : tiers_)
      if (TicketPtr ticket = t.tier->use(keys)) writing_.push_back(std::move(ticket));
  } catch (const std::bad_alloc&) {  // another time
  }
}

// Notes that a page is to be copied, unless there is no room for it or was none for one before.
void LowerTiers::add_copy(Copies& copies, const PageKey& key, int32_t page, bool mark) {
  const size_t bytes = kv_.layout().page_bytes();
  const size_t counted = std::max(bytes, limits_.write_bytes / limits_.write_pages);
  copies.fit = copies.fit && *written_bytes_ + counted <= limits_.write_bytes;
  if (!copies.fit) return;
  copies.keys.push_back(key);
  copies.marked.push_back(mark);
  // The copy counts until the last tier has let go of it.
  auto* const raw = new std::byte[bytes];
  *written_bytes_ += counted;
  std::shared_ptr<std::byte[]> memory(raw, [counter = written_bytes_, counted](const std::byte* p) {
    delete[] p;
    *counter -= counted;
  });
  copies.pages.push_back(page);
  copies.reads.push_back({pages_.frame(page), memory.get()});
  copies.blobs.push_back({std::move(memory), bytes});
}

// What of a path the tiers were not given yet, as much as there is memory for.
LowerTiers::Copies LowerTiers::copies_of(NodeId node, int32_t length) {
  Copies copies;
  try {
    for (const NodeId id : path_to(node, length)) {
      if (!copies.fit) break;
      const Node& n = tree_.node(id);
      for_each_full_page(tree_, n, 0, std::min(n.computed, length - n.start),
                         [&](int32_t page, int32_t block) {
                           copies.known = copies.known || is_saved(page);
                           if (copies.fit && !is_saved(page))
                             add_copy(copies, keys_.key(id, block), page, true);
                         });
      if (n.end() <= length && tree_.has_state(id) && tree_.state_is_kept(id))
        add_state(copies, id);
    }
  } catch (const std::bad_alloc&) {
    // What there is memory for is given away, the rest another time.
  }
  copies.blobs.resize(std::min({copies.keys.size(), copies.blobs.size(), copies.reads.size()}));
  copies.keys.resize(copies.blobs.size());
  copies.reads.resize(copies.blobs.size());
  return copies;
}

// Gives them to every tier, and marks those that none has refused at once.
void LowerTiers::give(const Copies& copies) {
  std::vector<bool> refused(copies.blobs.size());
  for (const LowerTier& t : tiers_) {
    TicketPtr ticket = t.tier->put(copies.keys, copies.blobs);
    for (size_t i = 0; i < refused.size(); ++i)
      if (ticket->completed(i) && !ticket->hit(i)) refused[i] = true;
    if (!ticket->done()) writing_.push_back(std::move(ticket));
  }
  for (size_t i = 0; i < refused.size(); ++i)
    if (copies.marked[i]) pages_.set_saved(copies.pages[i], refused[i] ? 0 : saved_now());
}

// False: not all of it, for there is no room for more copies.
bool LowerTiers::save_path(NodeId node, int32_t length) {
  if (length == 0) return true;
  const Copies copies = copies_of(node, length);
  if (copies.blobs.empty()) return copies.fit;
  try {
    kv_.read(copies.reads);
  } catch (const std::exception&) {
    return true;  // another time; a device that is lost says so in the next step
  }
  give(copies);
  if (copies.known) use_path(node, tree_.computed_end(node, length));
  return copies.fit;
}

void LowerTiers::flush(std::chrono::milliseconds time) {
  const auto deadline = limits_.wall() + time;
  const auto left = [&] {
    return std::max(std::chrono::nanoseconds(0), deadline - limits_.wall());
  };
  do {
    for (const TicketPtr& ticket : writing_) limits_.wait(*ticket, left());
    writing_.clear();
    save_rests();
  } while ((!writing_.empty() || rests_wait()) && left().count() > 0);
}

}  // namespace prefix
