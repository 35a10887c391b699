// The pages that hold keys and values, as numbers, and the tokens they belong to.
//
//   page number   0    1    2    3    4   ...   capacity - 1
//   references  [ 1 ][ 2 ][ 0 ][ 1 ][ 0 ]       0 = free
//   next        [ 1 ][ 3 ][   ][ - ][   ]       the page of the following 32 positions, and back
//   tokens      [ 32 ids ][ 32 ids ] ...        beside their keys and values, slot by slot
//   log-probs   [ 32 of them ] ...              beside the tokens, in chunks where one is known
//
// Free pages are linked through `previous`, and the numbers of free frames are a stack beside the
// pages, so that giving back never takes memory.
//
// A page belongs to the tree nodes whose positions it holds: more than one where edges end in
// mid-page. A node knows its first and last page and how many there are; `next` leads from one to
// the other. The bytes of a page are its *frame*, a number too; they live elsewhere (KvMemory,
// kv_memory.h). A frame that was used before and is handed out again is listed by take_dirty(): its
// bytes must be zeroed before the next step.
//
// A page without a frame is *hollow*: it has its place in a path and its tokens, and no keys and
// values, because they are not computed yet or nothing reads them any more (tree_windows.cc).
// Frames are what is scarce. Where no page is hollow, a page and its frame have the same number.
//
//   path of a prompt, window of 2 pages    [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ][ 5 ][ 6 ]
//   frames                                    -    -   [ 2 ][ 0 ][ 1 ]   -    -
//                                           behind     \_ in its band _/  not computed yet
//
// A running request may have a *band* of frames set aside, which its path slides through. The pages
// that hold them *slide*: they count for the bands, all other ones for the pool.
//
// Two marks say what is known of a page that is full: its key is in PageKeys, and it was given to
// the tiers below. They go when the page loses a position, which it may get back with other tokens.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/status.h"

namespace prefix {

class PagePool {
 public:
  static constexpr int32_t kMaxPages = (1 << 26) - 1;  // what the links have bits for

  explicit PagePool(int32_t capacity) : capacity_(std::min(capacity, kMaxPages)) {}

  int32_t capacity() const { return capacity_; }
  int32_t used() const { return used_; }  // frames
  int32_t peak() const { return peak_; }
  // Pages with a frame that can be handed out now and are not promised to a running request.
  int32_t available() const { return capacity_ - (used_ - sliding_) - reserved_ - bands_; }

  // A page with one reference that follows `previous` (-1: none); the caller has checked
  // available(), or takes from its reservation.
  int32_t allocate(int32_t previous) {
    prepare(1);
    const int32_t number = allocate_hollow(previous);
    fill(number);
    return number;
  }
  // The same for a page all of which will be written before it is read: it is not zeroed.
  int32_t allocate_blank(int32_t previous) {
    const int32_t number = allocate_hollow(previous);
    give_frame(number);
    return number;
  }
  int32_t allocate_hollow(int32_t previous) {
    int32_t number = free_;
    if (number >= 0) {
      free_ = page(number).previous;
    } else {
      number = size_;
      if (number / kChunkPages == chunks()) add_chunk();
      ++size_;
    }
    page(number) = {1, 0, previous, 0, 0, 0};
    frame_of(number) = -1;
    if (previous >= 0) page(previous).next = static_cast<uint32_t>(number);
    ++hollow_;
    return number;
  }
  // After it, that many calls that hand out a page, and of fill(), take no memory.
  void prepare(int32_t pages) {
    while (room() <
           static_cast<size_t>(used_) + static_cast<size_t>(hollow_) + static_cast<size_t>(pages))
      add_chunk();
    const size_t dirty = dirty_.size() + static_cast<size_t>(pages);
    if (dirty_.capacity() < dirty) dirty_.reserve(std::max(dirty, 2 * dirty_.capacity()));
  }
  // Pages that there is memory for; the numbers of all that were handed out are below it.
  size_t room() const { return chunks_.size() * kChunkPages; }
  void share(int32_t number) { ++page(number).references; }
  void release(int32_t number) noexcept {
    unmark(number);
    if (--page(number).references > 0) return;
    if (!hollow(number)) empty(number);
    --hollow_;
    page(number).previous = std::exchange(free_, number);
  }

  // --- frames ---
  bool hollow(int32_t number) const { return frame(number) < 0; }
  int32_t frame(int32_t number) const {
    return const_cast<PagePool*>(this)->frame_of(number);  // -1: it is hollow
  }
  int32_t hollow_pages() const { return hollow_; }
  // Gives a hollow page a frame; the caller has checked available(), or takes from what was set
  // aside for it.
  void fill(int32_t number) {
    if (free_frames() > 0) list_dirty(free_frame(free_frames() - 1));  // the one that it gets
    give_frame(number);
  }
  // The same from a band.
  void fill_sliding(int32_t number) {
    PREFIX_CHECK(bands_have_room());
    fill(number);
    page(number).slides = 1;
    ++sliding_;
  }
  // Takes the frame of a page.
  void empty(int32_t number) noexcept {
    settle(number);
    free_frame(free_frames()) = std::exchange(frame_of(number), -1);
    ++hollow_;
    --used_;
  }
  bool slides(int32_t number) const { return page(number).slides != 0; }
  // The page slides no more: its frame counts for the pool.
  void settle(int32_t number) {
    if (!slides(number)) return;
    page(number).slides = 0;
    --sliding_;
  }
  int32_t sliding_pages() const { return sliding_; }
  // Sets frames aside for a band, of those that are available, and gives them back.
  void add_band(int32_t frames) { bands_ += frames; }
  void remove_band(int32_t frames) { bands_ -= frames; }
  int32_t bands() const { return bands_; }
  bool bands_have_room() const { return sliding_ < bands_; }

  int32_t references(int32_t number) const { return static_cast<int32_t>(page(number).references); }
  // Of a page that is not the last one of its node.
  int32_t next(int32_t number) const { return static_cast<int32_t>(page(number).next); }
  // Of a page that is not the first one of its node.
  int32_t previous(int32_t number) const { return page(number).previous; }

  // kPageTokens ids, one for each slot; those of the next page number follow when it is in the
  // same chunk.
  const int32_t* tokens(int32_t number) const {
    return const_cast<PagePool*>(this)->tokens_of(number);
  }
  // Slots from `slot` on get these, of which no log-prob is known.
  void set_tokens(int32_t number, int32_t slot, std::span<const int32_t> tokens) {
    std::ranges::copy(tokens, tokens_of(number) + slot);
    if (float* const known = logprobs_of(number))
      std::fill_n(known + slot, tokens.size(), kNotKnown);
  }

  // Of the tokens, slot by slot: log p(token | those before it), or kNotKnown. Null: none of the
  // chunk is known.
  static constexpr float kNotKnown = std::numeric_limits<float>::quiet_NaN();
  const float* logprobs(int32_t number) const {
    return const_cast<PagePool*>(this)->logprobs_of(number);
  }
  // The same to write to; null without memory.
  float* edit_logprobs(int32_t number) noexcept {
    if (!logprobs_of(number)) add_logprobs(chunk(number));
    return logprobs_of(number);
  }

  bool keyed(int32_t number) const { return page(number).keyed != 0; }
  // 0: no tier is known to have it; else a mark, at most kMaxSaved, of when it was given to them.
  static constexpr uint32_t kMaxSaved = 7;
  uint32_t saved(int32_t number) const { return page(number).saved; }
  void set_keyed(int32_t number) { page(number).keyed = 1; }
  void set_saved(int32_t number, uint32_t mark) { page(number).saved = mark & kMaxSaved; }
  void unmark(int32_t number) { page(number).keyed = page(number).saved = 0; }

  static bool same_chunk(int32_t a, int32_t b) { return a / kChunkPages == b / kChunkPages; }

  // Promises pages to a request that will need them later (generation), so that admission of
  // others cannot starve it.
  void reserve(int32_t pages) { reserved_ += pages; }
  void unreserve(int32_t pages) { reserved_ -= pages; }

  // Frames.
  std::vector<int32_t> take_dirty() {
    std::vector<int32_t> taken = std::exchange(dirty_, {});
    std::erase_if(taken, [this](int32_t frame) { return !mark_dirty(frame, false); });
    return taken;
  }
  // Every byte of a page that was just allocated has been written: it need not be zeroed.
  void set_clean(int32_t number) { mark_dirty(frame(number), false); }

  size_t metadata_bytes() const {
    return chunks_.size() * sizeof(Chunk) + scored_chunks_ * kChunkSlots * sizeof(float);
  }

 private:
  static constexpr int32_t kChunkPages = 1024;
  static constexpr size_t kChunkSlots = size_t{kChunkPages} * kPageTokens;
  struct Page {
    uint32_t references : 6;  // at most kPageTokens: every one of them holds a position
    uint32_t next : 26;
    int32_t previous : 27;
    uint32_t keyed : 1;
    uint32_t saved : 3;
    uint32_t slides : 1;
  };
  static_assert(sizeof(Page) == 8);
  struct Chunk {
    Page pages[kChunkPages];
    int32_t frames[kChunkPages];
    int32_t free_frames[kChunkPages];  // this part of the stack
    int32_t tokens[kChunkSlots];
    std::bitset<kChunkPages> dirty;     // by frame: those of dirty_ that are to be zeroed
    std::unique_ptr<float[]> logprobs;  // null until one is known
  };

  int32_t chunks() const { return static_cast<int32_t>(chunks_.size()); }
  void add_chunk() { chunks_.push_back(std::make_unique_for_overwrite<Chunk>()); }
  Chunk& chunk(int32_t number) { return *chunks_[static_cast<size_t>(number / kChunkPages)]; }
  Page& page(int32_t number) { return chunk(number).pages[number % kChunkPages]; }
  const Page& page(int32_t number) const { return const_cast<PagePool*>(this)->page(number); }

  int32_t* tokens_of(int32_t number) {
    return chunk(number).tokens + number % kChunkPages * kPageTokens;
  }
  float* logprobs_of(int32_t number) {
    float* const all = chunk(number).logprobs.get();
    return all ? all + number % kChunkPages * kPageTokens : nullptr;
  }
  void add_logprobs(Chunk& to) noexcept {
    to.logprobs.reset(new (std::nothrow) float[kChunkSlots]);
    if (!to.logprobs) return;
    std::fill_n(to.logprobs.get(), kChunkSlots, kNotKnown);
    ++scored_chunks_;
  }

  int32_t& frame_of(int32_t number) { return chunk(number).frames[number % kChunkPages]; }
  int32_t free_frames() const { return frames_ - used_; }
  // The stack has room for as many as there are pages, and there are no more frames than pages.
  int32_t& free_frame(int32_t place) { return chunk(place).free_frames[place % kChunkPages]; }
  bool mark_dirty(int32_t frame, bool is) {  // returns what it was
    auto mark = chunk(frame).dirty[static_cast<size_t>(frame % kChunkPages)];
    const bool was = mark;
    mark = is;
    return was;
  }
  // One that was cleaned since and is handed out again is listed twice.
  void list_dirty(int32_t frame) {
    if (!mark_dirty(frame, true)) dirty_.push_back(frame);
  }
  void give_frame(int32_t number) {
    frame_of(number) = free_frames() > 0 ? free_frame(free_frames() - 1) : frames_++;
    --hollow_;
    if (++used_ > peak_) peak_ = used_;
  }

  int32_t capacity_;    // frames
  int32_t size_ = 0;    // pages that were ever handed out
  int32_t frames_ = 0;  // that were
  int32_t used_ = 0;
  int32_t hollow_ = 0;
  int32_t sliding_ = 0;  // of those that are used
  int32_t bands_ = 0;
  int32_t peak_ = 0;
  int32_t reserved_ = 0;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  size_t scored_chunks_ = 0;    // with log-probs
  int32_t free_ = -1;           // the first free page
  std::vector<int32_t> dirty_;  // frames
};

}  // namespace prefix
