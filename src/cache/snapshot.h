// Saving what the cache holds, and loading it again: a process that starts warm.
//
//   save   between steps: list nodes, most recently used first, without those that have a time to
//          live: what is to go soon would have none in the cache that loads it
//          in turns: copy some pages between steps ──> write them while the engine goes on; what is
//          evicted before its turn is left out (pages_to_save.h)
//   load   in turns: read and check some pages ──> put them into the tree between steps
//          in turns: use what is there once more, in the order of use
//
// Loading evicts nothing: what does not fit is left out, and since the file begins with what was
// used last, that is what matters least.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_memory.h"
#include "cache/namespaces.h"
#include "cache/pages_to_save.h"
#include "cache/snapshot_file.h"
#include "tree/tree.h"

namespace prefix {

struct SnapshotResult {
  int64_t namespaces = 0, nodes = 0, tokens = 0;
  int64_t states = 0;          // of recurrent layers
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
  std::function<void(const std::function<void()>&)> run_exclusive;
  // The roots of a namespace that there are, and the one of a regime, made when it is new.
  std::function<std::vector<NodeId>(int32_t name_space)> roots;
  std::function<NodeId(int32_t name_space, bool long_regime)> root;
  // Tells these of all that goes from the tree from now on, as long as they live. Between steps.
  std::function<void(std::weak_ptr<PagesToSave>)> watch;
  SnapshotShape shape;
  ops::KvLayout layout;  // of `kv`, which goes when the engine is closed
  // By which generations of a namespace that run will still grow. Null: by nothing.
  std::function<int64_t(int32_t name_space)> reserved_tokens = nullptr;
  // Of paths that are looked up in a turn of a load, one more at most: as long as copying the pages
  // of a turn takes.
  int64_t turn_tokens = int64_t{4} << 20;
};

// Both on the calling thread; they throw what the file's classes do. No namespaces: all that are
// open; kNotFound for one that is not. What is closed while a snapshot is loaded is left out.
SnapshotResult save_snapshot(const SnapshotCache& cache, const std::string& path,
                             std::vector<int32_t> namespaces);
SnapshotResult load_snapshot(const SnapshotCache& cache, const std::string& path);

}  // namespace prefix
