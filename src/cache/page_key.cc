#include "cache/page_key.h"

#include <bit>

#include "base/hex.h"
#include "base/sha256.h"

namespace prefix {
namespace {

constexpr std::string_view kDomain = "libprefix page key 1";

void put_u64(std::byte* out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> 8 * i);
}

void add_head(Sha256& hash, char tag, uint64_t length) {
  std::byte head[9];
  head[0] = static_cast<std::byte>(tag);
  put_u64(head + 1, length);
  hash.update(head, sizeof(head));
}

void add_field(Sha256& hash, char tag, const void* data, size_t size) {
  add_head(hash, tag, size);
  hash.update(data, size);
}

void add_place(Sha256& hash, const PageKey& parent, std::span<const int32_t> tokens) {
  add_field(hash, 'P', parent.bytes.data(), parent.bytes.size());
  if constexpr (std::endian::native == std::endian::little) {
    add_field(hash, 'T', tokens.data(), tokens.size_bytes());
  } else {
    add_head(hash, 'T', tokens.size_bytes());
    for (const int32_t token : tokens) {
      std::byte bytes[4];
      for (int i = 0; i < 4; ++i)
        bytes[i] = static_cast<std::byte>(static_cast<uint32_t>(token) >> 8 * i);
      hash.update(bytes, sizeof(bytes));
    }
  }
}

}  // namespace

std::string PageKey::hex() const { return prefix::hex(bytes); }

PageKey root_key(const ModelFingerprint& model, std::span<const std::string_view> name_space) {
  Sha256 hash;
  add_field(hash, 'D', kDomain.data(), kDomain.size());
  add_field(hash, 'M', model.data(), model.size());
  std::byte count[8];
  put_u64(count, name_space.size());
  add_field(hash, 'N', count, sizeof(count));
  for (const std::string_view part : name_space) add_field(hash, 'n', part.data(), part.size());
  return {hash.finish()};
}

PageKey page_key(const PageKey& parent, std::span<const int32_t> tokens) {
  Sha256 hash;
  add_place(hash, parent, tokens);
  return {hash.finish()};
}

PageKey state_key(const PageKey& parent, std::span<const int32_t> tail, int64_t length,
                  int32_t page) {
  Sha256 hash;
  add_place(hash, parent, tail);
  std::byte place[16];
  put_u64(place, static_cast<uint64_t>(length));
  put_u64(place + 8, static_cast<uint64_t>(page));
  add_field(hash, 'S', place, sizeof(place));
  return {hash.finish()};
}

}  // namespace prefix
