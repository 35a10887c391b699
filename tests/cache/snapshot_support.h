// Snapshot files whose every byte follows from a number.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/page.h"
#include "cache/snapshot_file.h"
#include "disk_support.h"

namespace prefix::testing_support {

constexpr size_t kSnapshotHeader = 96;

inline SnapshotShape shape_of(uint64_t page_bytes) {
  SnapshotShape shape;
  for (size_t i = 0; i < shape.fingerprint.size(); ++i)
    shape.fingerprint[i] = static_cast<uint8_t>(3 * i + 1);
  shape.page_tokens = 32;
  shape.page_bytes = page_bytes;
  return shape;
}

inline std::vector<std::byte> snapshot_page(size_t node, int32_t page, uint64_t bytes) {
  return page_of(node * 1000 + static_cast<uint64_t>(page), bytes);
}

inline int32_t pages_of(const SnapshotNode& n) { return pages_between(n.start, n.end()); }

// Namespaces of any parts, and nodes that hang on any before them.
inline SnapshotIndex random_index(std::mt19937& random, size_t nodes) {
  SnapshotIndex index;
  for (size_t i = 1 + random() % 4; i > 0; --i) {
    std::vector<std::string>& parts = index.namespaces.emplace_back();
    for (size_t p = random() % 4; p > 0; --p) {
      std::string& part = parts.emplace_back();
      for (size_t n = random() % 9; n > 0; --n) part += static_cast<char>(random());
    }
  }
  while (index.nodes.size() < nodes) {
    SnapshotNode n;
    n.name_space = static_cast<uint32_t>(random() % index.namespaces.size());
    n.long_regime = random() % 4 == 0;
    if (!index.nodes.empty() && random() % 3) {
      n.parent = static_cast<int32_t>(random() % index.nodes.size());
      const SnapshotNode& above = index.nodes[static_cast<size_t>(n.parent)];
      n.name_space = above.name_space;
      n.long_regime = above.long_regime;
      n.start = above.end();
    }
    n.uses = static_cast<uint32_t>(random());
    n.priority = static_cast<int16_t>(random());
    n.tokens.resize(1 + random() % (random() % 4 ? 20 : 150));
    for (int32_t& t : n.tokens) t = static_cast<int32_t>(random());
    index.nodes.push_back(std::move(n));
  }
  return index;
}

// Returns the bytes that the writer says it wrote.
inline int64_t write_snapshot(const std::string& path, const SnapshotShape& shape,
                              const SnapshotIndex& index) {
  SnapshotWriter file(path, shape, index);
  for (size_t i = 0; i < index.nodes.size(); ++i)
    for (int32_t p = 0; p < pages_of(index.nodes[i]); ++p)
      file.add_page(snapshot_page(i, p, shape.page_bytes));
  return file.finish();
}

inline bool same(const SnapshotIndex& a, const SnapshotIndex& b) {
  const auto equal = [](const SnapshotNode& m, const SnapshotNode& n) {
    return m.parent == n.parent && m.name_space == n.name_space && m.long_regime == n.long_regime &&
           m.start == n.start && m.uses == n.uses && m.priority == n.priority &&
           m.tokens == n.tokens;
  };
  return a.namespaces == b.namespaces &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), equal);
}

struct SnapshotPages {
  int right = 0, damaged = 0, wrong = 0;
};
// Reads every page; one that is not what was written must be reported.
inline SnapshotPages read_pages(const SnapshotReader& file, uint64_t page_bytes) {
  SnapshotPages pages;
  std::vector<std::byte> page(page_bytes);
  for (size_t i = 0; i < file.index().nodes.size(); ++i) {
    for (int32_t p = 0; p < pages_of(file.index().nodes[i]); ++p) {
      if (!file.read_page(i, p, page)) {
        ++pages.damaged;
      } else {
        ++(page == snapshot_page(i, p, page_bytes) ? pages.right : pages.wrong);
      }
    }
  }
  return pages;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline uint64_t index_bytes(const std::string& file) {
  uint64_t bytes;
  std::memcpy(&bytes, file.data() + 56, sizeof(bytes));
  return bytes;
}

// The same file with another index and a checksum that fits: what no accident makes.
inline std::string with_index(const std::string& file, const std::string& index) {
  std::string out = file.substr(0, 64);
  const uint64_t bytes = index.size();
  std::memcpy(out.data() + 56, &bytes, sizeof(bytes));
  Sha256 hash;
  const Sha256::Digest digest =
      hash.update(out.data(), out.size()).update(index.data(), index.size()).finish();
  out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return out + index + file.substr(kSnapshotHeader + index_bytes(file));
}

}  // namespace prefix::testing_support
