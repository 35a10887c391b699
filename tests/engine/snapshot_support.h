// Engines that save and load, and what lies in the file between them.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/page.h"
#include "cache/snapshot_file.h"
#include "tier_support.h"

namespace prefix::testing_support {

// Memory for `pages` pages, no tiers, and steps that split prompts.
inline std::shared_ptr<Engine> open_engine(int64_t pages, const EngineOptions& more = {},
                                           const TinyCheckpoint& checkpoint = tiny_checkpoint()) {
  return open_over("", pages, more, checkpoint);
}

// The same tuples in every engine, whatever their numbers are there; two differ in their joints.
inline std::vector<int32_t> open_tuples(Engine& engine, std::mt19937& random) {
  const std::vector<NamespaceParts> tuples = {
      {}, {"tenant"}, {"ten", "ant"}, {"tenant", "adapter", "7"}};
  std::vector<size_t> order{0, 1, 2, 3};
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int32_t> numbers(order.size());
  for (const size_t i : order) numbers[i] = engine.open_namespace(tuples[i]);
  return numbers;
}

struct SnapshotBytes {
  explicit SnapshotBytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
    std::memcpy(&shape.page_tokens, text.data() + 12, 4);
    std::memcpy(shape.fingerprint.data(), text.data() + 16, 32);
    std::memcpy(&shape.page_bytes, text.data() + 48, 8);
    uint64_t index;
    std::memcpy(&index, text.data() + 56, 8);
    pages_at = 96 + index;
  }
  size_t page_at(size_t number) const { return pages_at + number * (shape.page_bytes + 32); }
  size_t page_count() const { return (text.size() - pages_at) / (shape.page_bytes + 32); }

  std::string text;
  SnapshotShape shape;
  size_t pages_at = 0;
};

// What a loader cannot take from the file: a page that is damaged, what is behind it in its node,
// and everything below.
inline int64_t lost_tokens(const SnapshotReader& file, uint64_t page_bytes) {
  std::vector<int32_t> ends;
  std::vector<std::byte> page(page_bytes);
  int64_t lost = 0;
  for (size_t i = 0; i < file.index().nodes.size(); ++i) {
    const SnapshotNode& n = file.index().nodes[i];
    int32_t end = n.start;
    if (n.parent < 0 || ends[static_cast<size_t>(n.parent)] == n.start) {
      const int32_t pages = pages_between(n.start, n.end());
      int32_t p = 0;
      while (p < pages && file.read_page(i, p, page)) ++p;
      end = p == pages ? n.end() : std::max(n.start, (n.start / 32 + p) * 32);
    }
    lost += n.end() - end;
    ends.push_back(end);
  }
  return lost;
}

}  // namespace prefix::testing_support
