// Replies of a Redis server. The input: how many are expected and of which page sizes, the sizes of
// the pieces in which they come, and their bytes.
#include <array>
#include <string>
#include <vector>

#include "cache/store/redis_replies.h"
#include "target.h"

namespace prefix::fuzz {
namespace {

constexpr std::array<size_t, 4> kPageSizes = {0, 1, 40, 300};

struct Outcome {
  std::vector<std::vector<std::byte>> pages;  // to the byte, so that a write beyond is noticed
  std::vector<RedisReply> replies;
  bool complete = false;
};

// piece: 0 = all at once.
void read(Input stream, size_t count, uint16_t sizes, size_t piece, Outcome& out) {
  RedisReplies reader;
  KEEP(reader.begin());
  out.pages.resize(count);
  out.replies.resize(count);
  for (size_t i = 0; i < count; ++i) {
    out.pages[i].resize(kPageSizes[sizes >> 2 * i & 3]);
    if (out.pages[i].empty()) continue;
    out.replies[i].page = out.pages[i].data();
    out.replies[i].page_size = out.pages[i].size();
  }
  reader.expect(out.replies);
  const std::string_view text = text_of(stream);
  const size_t step = piece ? piece : std::max<size_t>(1, text.size());
  for (size_t at = 0; at < text.size() && !reader.complete(); at += step)
    if (!reader.feed(text.substr(at, step)).empty()) return;
  out.complete = reader.complete();
}

void check(const Outcome& o) {
  for (const RedisReply& r : o.replies) {
    KEEP(r.text.size() <= RedisReplies::kLongestText);
    KEEP(!o.complete || r.type != RedisReply::Type::kNone);
  }
}

}  // namespace

void run_redis(Input input) {
  Taker take(input);
  const size_t count = 1 + take.byte() % 6;
  const uint16_t sizes = take.two_bytes();
  const size_t piece = 1 + take.byte();
  const Input stream = take.rest();
  Outcome at_once, in_pieces;
  read(stream, count, sizes, 0, at_once);
  read(stream, count, sizes, piece, in_pieces);
  check(at_once);
  check(in_pieces);
  if (!at_once.complete || !in_pieces.complete) return;
  for (size_t i = 0; i < count; ++i) {
    const RedisReply &a = at_once.replies[i], &b = in_pieces.replies[i];
    KEEP(a.type == b.type && a.integer == b.integer && a.text == b.text && a.size == b.size);
    KEEP(a.header == b.header && at_once.pages[i] == in_pieces.pages[i]);
  }
}

}  // namespace prefix::fuzz
