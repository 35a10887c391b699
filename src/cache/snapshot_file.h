// A snapshot: the cache of an engine as one file. Numbers are little-endian.
//
//   offset   0  magic "PFXSNAP\n"
//            8  version of the format, 32 bits
//           12  tokens of a page, 32 bits
//           16  fingerprint of the model, 32 bytes (Model::fingerprint)
//           48  bytes of a page, 64 bits
//           56  bytes of the index, 64 bits
//           64  SHA-256 of bytes 0..63 and of the index, 32 bytes
//           96  the index: namespaces, then nodes, most recently used first and parents before
//               children
//            :  the pages of the nodes in this order, each followed by its SHA-256; behind those of
//               a node with a state the pages of that
//
// A state is what the recurrent layers know after the last token of a node. How it lies in its
// pages follows from the fingerprint, and so does how many there are.
//
// The index is read and checked before anything else, a page when it is wanted: a file that was cut
// short or damaged loses the pages that it lost. Saving writes PATH.part and renames it when all of
// it is on disk, so PATH is the old snapshot or the new one, whatever happens in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "cache/disk_folder.h"

namespace prefix {

struct SnapshotNode {
  int32_t parent = -1;       // number of a node before this one; -1: begins at position 0
  uint32_t name_space = 0;   // number in SnapshotIndex::namespaces
  bool long_regime = false;  // of models with two rotary regimes: the one of long sequences
  bool state = false;        // it has one
  bool asked = false;        // for its state, by a caller: no path is too long for it
  int32_t start = 0;
  uint32_t uses = 0;
  uint32_t state_uses = 0;
  int16_t priority = 0;
  std::vector<int32_t> tokens;

  int32_t end() const { return start + static_cast<int32_t>(tokens.size()); }
};

struct SnapshotIndex {
  std::vector<std::vector<std::string>> namespaces;  // parts of each
  std::vector<SnapshotNode> nodes;
};

struct SnapshotShape {
  Sha256::Digest fingerprint{};
  uint32_t page_tokens = 0;
  uint64_t page_bytes = 0;
  int32_t state_pages = 0;  // of a state; 0: the model has none. Not in the file
};

// Writes one file. Every call throws kIo, naming path and reason, and leaves the old file alone.
class SnapshotWriter {
 public:
  // Throws kMisuse when another one writes to the same path just now.
  SnapshotWriter(const std::string& path, const SnapshotShape& shape, const SnapshotIndex& index);
  ~SnapshotWriter();  // without finish(): nothing is left behind
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  void add_page(std::span<const std::byte> page);
  // One that is no more: it reads as damaged.
  void add_lost_page();
  // The file takes the place of the old one; returns its bytes.
  int64_t finish();

 private:
  void lock_part();
  void write(const void* data, size_t bytes);

  std::string path_, part_;
  uint64_t page_bytes_;
  Descriptor file_;
  int64_t written_ = 0;
  bool finished_ = false;
};

class SnapshotReader {
 public:
  // Throws kNotFound, kIo; kFormat for what is no snapshot or a damaged one; and
  // kIncompatibleSnapshot for one of another model, device or version.
  SnapshotReader(const std::string& path, const SnapshotShape& wanted);

  const SnapshotIndex& index() const { return index_; }
  // Page `i` of a node, counting from the one with its first token; those of its state follow.
  // False when it is damaged.
  bool read_page(size_t node, int32_t i, std::span<std::byte> page) const;

 private:
  Descriptor file_;
  SnapshotIndex index_;
  uint64_t page_bytes_ = 0;
  std::vector<uint64_t> first_page_;  // by node: number of pages before its own
  uint64_t pages_at_ = 0;             // offset
};

}  // namespace prefix
