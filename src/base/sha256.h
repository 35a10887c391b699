// SHA-256 (FIPS 180-4), for names of bytes that leave the process and for their checksums.
//
// Own code, because the library lives in its host's process: an OpenSSL of another version, or one
// that the host has set up in its own way, is nothing that a hash should bring along.
//
//   update(...) ──> [ block, 0..63 bytes ] ──64 bytes──> compress ──> state (8 words)
//                        long input goes past the block, straight from the caller's bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace prefix {

enum class Sha256Path {
  kFastest,   // of those that run here
  kPortable,  // plain C++
  kShaNi,     // x86-64 with the SHA extensions, some five times as fast
};

// kFastest and kPortable run everywhere.
bool sha256_path_runs(Sha256Path path);

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  // A path that does not run here is replaced by the portable one, which gives the same digest.
  explicit Sha256(Sha256Path path = Sha256Path::kFastest);

  Sha256& update(std::span<const std::byte> data);
  Sha256& update(const void* data, size_t size) {
    return update({static_cast<const std::byte*>(data), size});
  }
  // The digest of everything so far. The object is used up.
  Digest finish();

 private:
  using Compress = void (*)(uint32_t* state, const std::byte* blocks, size_t count);

  Compress compress_;
  std::array<uint32_t, 8> state_;
  std::array<std::byte, 64> block_;
  size_t filled_ = 0;   // bytes of block_
  uint64_t total_ = 0;  // bytes so far
};

inline Sha256::Digest sha256(std::span<const std::byte> data) {
  return Sha256().update(data).finish();
}

}  // namespace prefix
