#include "cache/disk_format.h"

#include <algorithm>
#include <cstring>

#include "base/hex.h"
#include "base/sha256.h"

namespace prefix {
namespace {

constexpr std::string_view kMagic = "PFXPAGE\n";
constexpr std::string_view kPageEnding = ".page";
constexpr std::string_view kTemporaryEnding = ".tmp";

template <typename Unsigned>
std::byte* put(std::byte* out, Unsigned value) {
  for (size_t i = 0; i < sizeof(value); ++i) *out++ = static_cast<std::byte>(value >> 8 * i);
  return out;
}

void append_number(std::string& text, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8)
    append_hex(text, static_cast<uint8_t>(value >> shift));
}

bool all_digits(std::string_view text) {
  return text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

}  // namespace

DiskHeader disk_header(const PageKey& key, std::span<const std::byte> page) {
  DiskHeader header;
  std::byte* out = header.data();
  std::memcpy(out, kMagic.data(), kMagic.size());
  out = put(out + kMagic.size(), kDiskVersion);
  out = put(out, static_cast<uint32_t>(kDiskHeader));
  out = put(out, static_cast<uint64_t>(page.size()));
  std::memcpy(out, key.bytes.data(), key.bytes.size());
  const Sha256::Digest checksum = sha256(page);
  std::memcpy(out + key.bytes.size(), checksum.data(), checksum.size());
  return header;
}

std::string disk_folder_name(int folder) {
  const auto index = static_cast<size_t>(folder);
  return {kHexDigits[index >> 4 & 15], '/', kHexDigits[index & 15]};
}

std::string disk_page_name(const PageKey& key) {
  return disk_folder_name(key.bytes[0]) + '/' + key.hex() + std::string(kPageEnding);
}

std::optional<PageKey> disk_page_of(int folder, std::string_view file) {
  PageKey key;
  const size_t digits = 2 * key.bytes.size();
  if (file.size() != digits + kPageEnding.size() || !file.ends_with(kPageEnding)) return {};
  file = file.substr(0, digits);
  if (!all_digits(file)) return {};
  for (size_t i = 0; i < key.bytes.size(); ++i)
    key.bytes[i] =
        static_cast<uint8_t>(kHexDigits.find(file[2 * i]) << 4 | kHexDigits.find(file[2 * i + 1]));
  if (key.bytes[0] != folder) return {};
  return key;
}

std::string disk_temporary_name(uint64_t random, uint64_t serial) {
  std::string name;
  append_number(name, random);
  append_number(name, serial);
  return name += kTemporaryEnding;
}

bool is_disk_temporary(std::string_view file) {
  return file.size() == 32 + kTemporaryEnding.size() && file.ends_with(kTemporaryEnding) &&
         all_digits(file.substr(0, 32));
}

}  // namespace prefix
