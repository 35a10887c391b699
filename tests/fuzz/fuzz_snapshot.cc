// A snapshot file, read and put into a tree. The input: a choice, and then the whole file, or its
// index alone. In that case the file is completed with the right checksums, which no accident
// finds, and with pages; bits of the choice say which of these are damaged.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/status.h"
#include "cache/snapshot.h"
#include "cache/snapshot_file.h"
#include "memory_file.h"
#include "still_device.h"
#include "target.h"

namespace prefix::fuzz {
namespace {

constexpr ops::KvLayout kLayout{ops::KvType::kBf16, 1, 1, 32};
constexpr size_t kPages = 12;  // that a completed file has

SnapshotShape shape() {
  SnapshotShape shape;
  shape.fingerprint[0] = 0x5a;
  shape.page_tokens = kPageTokens;
  shape.page_bytes = kLayout.page_bytes();
  return shape;
}

std::vector<std::byte> complete(Input index, uint16_t damaged) {
  constexpr size_t kHeader = 96;
  const SnapshotShape s = shape();
  static const std::vector<std::byte> kZeros(s.page_bytes);
  static const Sha256::Digest kDigest = sha256(kZeros);
  // Of its full size at once: about vectors of bytes that grow g++ 12 has false warnings.
  std::vector<std::byte> file(kHeader + index.size() + kPages * (kZeros.size() + kDigest.size()));
  std::byte* at = file.data();
  const auto put = [&](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(at, data, bytes);
    at += bytes;
  };
  const uint32_t version = 1;
  const uint64_t index_bytes = index.size();
  put("PFXSNAP\n", 8);
  put(&version, 4);
  put(&s.page_tokens, 4);
  put(s.fingerprint.data(), s.fingerprint.size());
  put(&s.page_bytes, 8);
  put(&index_bytes, 8);
  const Sha256::Digest digest =
      Sha256().update(file.data(), 64).update(index.data(), index.size()).finish();
  put(digest.data(), digest.size());
  put(index.data(), index.size());
  for (size_t i = 0; i < kPages; ++i) {
    at += kZeros.size();
    put(kDigest.data(), kDigest.size());
    if (damaged >> i & 1) at[-1] ^= std::byte{1};
  }
  return file;
}

// What an engine has around its cache.
class Cache {
 public:
  Cache(int32_t pages, int64_t quota)
      : pool_(pages), kv_(device_, kLayout, pages), tree_(pool_), quota_(quota) {}

  void load(const std::string& path) {
    const SnapshotCache cache{tree_,
                              pool_,
                              kv_,
                              namespaces_,
                              [](const std::function<void()>& f) { f(); },
                              [](int32_t) { return std::vector<NodeId>(); },
                              [this](int32_t space, bool far) { return root(space, far); },
                              [](const std::weak_ptr<PagesToSave>&) {},
                              shape(),
                              kLayout};
    const SnapshotResult result = load_snapshot(cache, path);
    tree_.check();
    KEEP(tree_.held_tokens() == 0);
    KEEP(result.tokens >= 0 && result.skipped_tokens >= 0);
    KEEP(pool_.used() <= pool_.capacity());
  }

 private:
  NodeId root(int32_t space, bool far) {
    const auto [at, is_new] = roots_.try_emplace({space, far}, kNoNode);
    if (is_new) {
      at->second = tree_.add_root(far ? 100 : 0, space);
      if (quota_ > 0) tree_.set_limits(space, 0, quota_);
    }
    return at->second;
  }

  StillDevice device_;
  PagePool pool_;
  KvMemory kv_;
  Tree tree_;
  Namespaces namespaces_;
  int64_t quota_;
  std::map<std::pair<int32_t, bool>, NodeId> roots_;
};

}  // namespace

void run_snapshot(Input input) {
  static MemoryFile file;
  Taker take(input);
  const uint8_t choice = take.byte();
  if (choice & 1) {
    const Input whole = take.rest();
    file.write(bytes_of(whole));
  } else {
    const uint16_t damaged = choice & 2 ? take.two_bytes() : 0;
    const Input index = take.rest();
    file.write(complete(index, damaged));
  }
  const int32_t pages = choice & 4 ? 3 : 64;
  const int64_t quota = choice & 8 ? 50 : 0;
  try {
    Cache(pages, quota).load(file.path());
  } catch (const Error& e) {
    KEEP(e.code() != Code::kInternal && e.code() != Code::kIo);
  }
}

}  // namespace prefix::fuzz
