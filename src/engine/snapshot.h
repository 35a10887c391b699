// Saving what the cache holds, and loading it again: a process that starts warm.
//
//   save   between steps: list nodes, most recently used first, and lock them
//          in turns: copy some pages between steps ──> write them while the engine goes on
//   load   in turns: read and check some pages ──> put them into the tree between steps
//
// Loading evicts nothing: what does not fit is left out, and since the file begins with what was
// used last, that is what matters least.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "cache/kv_memory.h"
#include "cache/snapshot_file.h"
#include "engine/namespaces.h"
#include "tree/tree.h"

namespace prefix {

struct SnapshotResult {
  int64_t namespaces = 0, nodes = 0, tokens = 0;
  int64_t bytes = 0;           // of the file
  int64_t skipped_tokens = 0;  // load: no room for them, or damaged
};

// The cache of an engine, as a snapshot needs it.
struct SnapshotCache {
  Tree& tree;
  PagePool& pages;
  KvMemory& kv;
  Namespaces& namespaces;
  // Runs its argument between two steps under the engine's lock; throws when the engine is closed.
  std::function<void(const std::function<void()>&)> between_steps;
  // The roots of a namespace that there are, and the one of a regime, made when it is new.
  std::function<std::vector<NodeId>(int32_t name_space)> roots;
  std::function<NodeId(int32_t name_space, bool long_regime)> root;
  SnapshotShape shape;
};

// Both on the calling thread; they throw what the file's classes do.
SnapshotResult save_snapshot(const SnapshotCache& cache, const std::string& path,
                             std::span<const int32_t> namespaces);
SnapshotResult load_snapshot(const SnapshotCache& cache, const std::string& path);

}  // namespace prefix
