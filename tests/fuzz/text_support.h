// What the targets of libprefix_text share.
#pragma once

#include <prefix_text.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "target.h"

namespace prefix::fuzz {

struct ReleaseTokenizer {
  void operator()(prefix_tokenizer* tokenizer) const { prefix_tokenizer_release(tokenizer); }
};
using Tokenizer = std::unique_ptr<prefix_tokenizer, ReleaseTokenizer>;

inline prefix_error no_error() { return PREFIX_ERROR_INIT; }

// Every caught panic of the library says so.
inline bool is_bug(prefix_status status, const prefix_error& error) {
  return status == PREFIX_ERR_INTERNAL &&
         std::string_view(error.message).starts_with("a bug in the library");
}

// Null when it is refused.
inline Tokenizer from_json(std::string_view tokenizer, std::string_view config) {
  prefix_tokenizer* handle = nullptr;
  prefix_error error = no_error();
  const prefix_status status = prefix_tokenizer_from_json(
      tokenizer.data(), tokenizer.size(), config.data(), config.size(), &handle, &error);
  KEEP(status != PREFIX_ERR_INTERNAL);
  return Tokenizer(handle);
}

// A few bytes of every kind through a tokenizer that was accepted.
inline void use(const prefix_tokenizer* tokenizer) {
  constexpr std::string_view kText = "Hello  w\xc3\xb6rld 12, \xe6\xbc\xa2<s> ab\n";
  prefix_token tokens[256];
  for (const int32_t flags :
       {0, int{PREFIX_ENCODE_SPECIAL}, int{PREFIX_ENCODE_LITERAL}, int{PREFIX_ENCODE_CONTINUES}}) {
    int64_t offsets[2 * 256];
    size_t needed = 0;
    if (prefix_tokenizer_encode_offsets(tokenizer, kText.data(), kText.size(), flags, tokens, 256,
                                        &needed, offsets, 2 * 256, nullptr) != PREFIX_OK)
      continue;
    int64_t size = 0;
    KEEP(prefix_tokenizer_vocab_size(tokenizer, &size, nullptr) == PREFIX_OK);
    for (size_t i = 0; i < needed; ++i) {
      KEEP(tokens[i] >= 0 && tokens[i] < size);
      KEEP(0 <= offsets[2 * i] && offsets[2 * i] <= offsets[2 * i + 1] &&
           offsets[2 * i + 1] <= static_cast<int64_t>(kText.size()));
    }
    char text[1024];
    size_t bytes = 0;
    prefix_tokenizer_decode(tokenizer, tokens, needed, flags & PREFIX_DECODE_SKIP_SPECIAL, text,
                            sizeof(text), &bytes, nullptr);
  }
  size_t needed = 0;
  KEEP(prefix_tokenizer_info_json(tokenizer, nullptr, 0, &needed, nullptr) == PREFIX_OK);
}

// One that knows bytes and a few words.
inline const std::string& small_tokenizer() {
  static const std::string kJson = [] {
    std::string vocab;
    for (int i = 32; i < 127; ++i) {
      const auto c = static_cast<char>(i);
      vocab += cat(i > 32 ? "," : "", '"', c == '"' || c == '\\' ? "\\" : "", c, "\":", i - 32);
    }
    const auto added = [](int id, const char* text) {
      return cat(R"({"id":)", id, R"(,"content":")", text,
                 R"(","single_word":false,"lstrip":false,)",
                 R"("rstrip":false,"normalized":false,"special":true})");
    };
    return cat(R"({"version":"1.0","added_tokens":[)", added(95, "<s>"), ",", added(96, "</s>"),
               R"(],"model":{"type":"BPE","vocab":{)", vocab, R"(},"merges":[]}})");
  }();
  return kJson;
}

}  // namespace prefix::fuzz
