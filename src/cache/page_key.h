// The name of a page outside the process: 32 bytes that say whose keys and values these are.
//
//   root    = SHA-256( D "libprefix page key 1" | M model fingerprint | N count | n salt | n ... )
//                 |
//   page 0  = SHA-256( P root   | T tokens 0..31  )
//                 |
//   page 1  = SHA-256( P page 0 | T tokens 32..63 )     and so on along a path
//
// A state of recurrent layers after L tokens is several pages, each with a key: of its page i
//
//   state   = SHA-256( P key of the last page that is full | T the tokens behind it | S L, i )
//
// Keys and values of these tokens are in a page that is not full, under its own key. One page more
// than a state has, again its first one, is there if a caller asked for it.
//
// Each field is one tag byte, the length of its bytes as 64 bits little-endian, and the bytes:
//
//   D  domain and version of this format, ASCII        N  number of parts of the namespace, 64 bits
//   M  32 bytes that stand for weights, page layout    n  one part of the namespace, in order
//      and everything else that decides the bytes      P  the 32 bytes of the key before
//   T  token ids, 32 bits little-endian each           S  two numbers, 64 bits little-endian each
//
// So no part can run into the next one, ("ab", "c") is not ("a", "bc"), a root is never a page, and
// a page that is not full has a key of its own, because the length of its tokens is hashed, and a
// state is never a page of keys and values. A key
// holds no seed: every process and language that reads this comment computes the same one.
// tools/golden/page_keys.py does in Python.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace prefix {

struct PageKey {
  std::array<uint8_t, 32> bytes{};

  auto operator<=>(const PageKey&) const = default;
  // 64 digits, lower case.
  std::string hex() const;
};

// The bytes are spread evenly already.
struct PageKeyHash {
  size_t operator()(const PageKey& key) const {
    size_t value;
    std::memcpy(&value, key.bytes.data(), sizeof(value));
    return value;
  }
};

using ModelFingerprint = std::array<uint8_t, 32>;

// The parent of the first page of a namespace, a tuple such as (salt, adapter, epoch of adapter).
PageKey root_key(const ModelFingerprint& model, std::span<const std::string_view> name_space);

// The key of the page behind `parent`.
PageKey page_key(const PageKey& parent, std::span<const int32_t> tokens);

// The key of page `page` of the state after `length` tokens, of which `tail` come behind the page
// with the key `parent`.
PageKey state_key(const PageKey& parent, std::span<const int32_t> tail, int64_t length,
                  int32_t page);

}  // namespace prefix
