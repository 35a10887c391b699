// Costs of what is known of the tree's pages beside it: events, reasons for misses, leases.
#include "cache/cache_events.h"
#include "cache/leases.h"
#include "cache/miss_reasons.h"
#include "cost.h"
#include "engine/completion_queue.h"
#include "engine/tree_json.h"
#include "grown_tree.h"

namespace prefix::bench {
namespace {

struct Watched : GrownTree {
  Watched(int pages, int block_pages)
      : GrownTree(pages),
        keys(tree, pool, [](NodeId) { return PageKey{}; }),
        events(tree, keys, pool, 1000, block_pages * kPageTokens) {}

  PageKeys keys;
  CacheEvents events;
};

// A prompt of n pages that steps of 16 pages compute.
double tell_of_a_path(int n, int block_pages) {
  Watched w(n + 1, block_pages);
  const Tokens tokens = w.path(1, n);
  const NodeId id = w.tree.attach(w.tree.match(w.root, tokens), tokens, {});
  return timed([&] {
    for (int done = 0; done < n; done += 16) {
      const int32_t end = std::min(n, done + 16) * kPageTokens;
      w.tree.set_computed(id, end);
      w.events.computed(id, done * kPageTokens);
    }
  });
}

double dump(int n, bool one_path) {
  Watched w(n + 1, 1);
  if (one_path)
    w.cached(w.path(1, n));
  else
    for (int i = 0; i < n; ++i) w.cached(w.leaf(i));
  size_t blocks = 0;
  const auto all = [&] { w.events.dump({w.root}, [&](const CacheEvent&) { ++blocks; }); };
  all();  // keys are known from then on
  const double seconds = timed(all);
  return blocks == 2 * static_cast<size_t>(n) ? seconds : 0;
}

// Leaves behind a common path make room, all of them.
double make_room(int leaves, int pages) {
  GrownTree g(leaves + pages + 1);
  const Tokens common = g.path(1, pages);
  g.cached(common);
  for (int i = 0; i < leaves; ++i) g.cached(joined(common, g.leaf(i)));
  MissReasons misses;
  TreeObserver observer;
  observer.evicting = [&](NodeId id, int32_t from, EvictReason) {
    misses.made_room(g.tree, id, from);
  };
  g.tree.set_observer(std::move(observer));
  return timed([&] { g.tree.trim(pages); });
}

double make_room_page_by_page(int n) {
  GrownTree g(n + 1);
  g.cached(g.path(1, n));
  MissReasons misses;
  TreeObserver observer;
  observer.evicting = [&](NodeId id, int32_t from, EvictReason) {
    misses.made_room(g.tree, id, from);
  };
  g.tree.set_observer(std::move(observer));
  return timed([&] {
    for (int left = n; left > 0; --left) g.tree.trim(left - 1);
  });
}

double end_leases(int n) {
  GrownTree g(16);
  const NodeId id = g.cached(g.leaf(1));
  Leases leases(g.tree);
  for (int i = 0; i < n; ++i) leases.add(id, i + 1);
  return timed([&] {
    for (int i = 0; i < n; ++i) leases.expire(i + 1);
  });
}

// What of it the lock is held for.
double print_tree(int n) {
  GrownTree g(n + 1);
  for (int i = 0; i < n; ++i) g.cached(g.leaf(i));
  const Namespaces namespaces;
  size_t nodes = 0;
  const double seconds = timed([&] { nodes = copy_tree(g.tree, namespaces).nodes.size(); });
  return nodes > 0 ? seconds : 0;
}

double complete(int n) {
  CompletionQueue queue;
  return timed([&] {
    for (int i = 0; i < n; ++i) queue.promise();
    for (int i = 0; i < n; ++i) queue.put(i);
    for (int i = 0; i < n; ++i) queue.next(0);
  });
}

double open_namespaces(int n) {
  Namespaces namespaces;
  return timed([&] {
    for (int i = 0; i < n; ++i) namespaces.open({"tenant " + std::to_string(i)});
    for (int i = 0; i < n; ++i) namespaces.find({"tenant " + std::to_string(i)});
  });
}

}  // namespace

void add_cache_costs(std::vector<Cost>& costs) {
  costs.push_back(
      {"events of a path", "pages of a path", 1000, 1, [](int n) { return tell_of_a_path(n, 1); }});
  costs.push_back({"events of a path, 4 pages each", "pages of a path", 1000, 1,
                   [](int n) { return tell_of_a_path(n, 4); }});
  costs.push_back({"dump events", "leaves", 10000, 1, [](int n) { return dump(n, false); }});
  costs.push_back(
      {"dump events of a path", "pages of a path", 1000, 1, [](int n) { return dump(n, true); }});
  costs.push_back({"leaves make room", "leaves behind 1000 pages", 1000, 1,
                   [](int n) { return make_room(n, 1000); }});
  costs.push_back(
      {"a path makes room page by page", "pages of a path", 1000, 1, make_room_page_by_page});
  costs.push_back({"end leases", "leases", 2000, 1, end_leases});
  costs.push_back({"print the tree", "leaves", 10000, 1, print_tree});
  costs.push_back({"complete jobs", "jobs", 20000, 1, complete});
  costs.push_back({"open and find namespaces", "namespaces", 5000, 1, open_namespaces});
}

}  // namespace prefix::bench
