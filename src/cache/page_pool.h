// The pages that hold keys and values, as numbers, and the tokens they belong to.
//
//   page number   0    1    2    3    4   ...   capacity - 1
//   references  [ 1 ][ 2 ][ 0 ][ 1 ][ 0 ]       0 = free
//   next        [ 1 ][ 3 ][   ][ - ][   ]       the page of the following 32 positions
//   tokens      [ 32 ids ][ 32 ids ] ...        beside their keys and values, slot by slot
//
// A page belongs to the tree nodes whose positions it holds: two after a split in mid-page, one
// otherwise. A node knows its first and last page and how many there are; `next` leads from one to
// the other. The bytes live elsewhere (KvMemory, kv_memory.h). A page that was used before and is
// handed out again is listed by take_dirty(): its bytes must be zeroed before the next step.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "plan/attention_plan.h"

namespace prefix {

class PagePool {
 public:
  explicit PagePool(int32_t capacity) : capacity_(capacity) {}

  int32_t capacity() const { return capacity_; }
  int32_t used() const { return used_; }
  int32_t peak() const { return peak_; }
  // Pages that can be handed out now and are not promised to a running request.
  int32_t available() const { return capacity_ - used_ - reserved_; }

  // A page with one reference that follows `previous` (-1: none); the caller has checked
  // available(), or takes from its reservation.
  int32_t allocate(int32_t previous) {
    int32_t page;
    if (!free_.empty()) {
      page = free_.back();
      free_.pop_back();
      dirty_.push_back(page);
    } else {
      page = static_cast<int32_t>(pages_.size());
      if (static_cast<size_t>(page) % kChunk == 0)
        tokens_.emplace_back(new int32_t[kChunk * kPageTokens]);
      pages_.emplace_back();
    }
    pages_[static_cast<size_t>(page)] = {1, -1, previous};
    if (previous >= 0) pages_[static_cast<size_t>(previous)].next = page;
    if (++used_ > peak_) peak_ = used_;
    return page;
  }
  void share(int32_t page) { ++pages_[static_cast<size_t>(page)].references; }
  void release(int32_t page) {
    if (--pages_[static_cast<size_t>(page)].references == 0) {
      free_.push_back(page);
      --used_;
    }
  }
  int32_t references(int32_t page) const { return pages_[static_cast<size_t>(page)].references; }
  int32_t next(int32_t page) const { return pages_[static_cast<size_t>(page)].next; }
  int32_t previous(int32_t page) const { return pages_[static_cast<size_t>(page)].previous; }

  // kPageTokens ids, one for each slot.
  int32_t* tokens(int32_t page) {
    const auto p = static_cast<size_t>(page);
    return tokens_[p / kChunk].get() + p % kChunk * kPageTokens;
  }
  const int32_t* tokens(int32_t page) const { return const_cast<PagePool*>(this)->tokens(page); }

  // Promises pages to a request that will need them later (generation), so that admission of
  // others cannot starve it.
  void reserve(int32_t pages) { reserved_ += pages; }
  void unreserve(int32_t pages) { reserved_ -= pages; }

  std::vector<int32_t> take_dirty() { return std::exchange(dirty_, {}); }

  size_t metadata_bytes() const {
    return pages_.capacity() * sizeof(Page) + free_.capacity() * sizeof(int32_t) +
           tokens_.size() * kChunk * kPageTokens * sizeof(int32_t);
  }

 private:
  static constexpr size_t kChunk = 1024;  // pages whose tokens are allocated together
  struct Page {
    int32_t references = 0;
    int32_t next = -1;
    int32_t previous = -1;
  };

  int32_t capacity_;
  int32_t used_ = 0;
  int32_t peak_ = 0;
  int32_t reserved_ = 0;
  std::vector<Page> pages_;
  std::vector<std::unique_ptr<int32_t[]>> tokens_;
  std::vector<int32_t> free_;
  std::vector<int32_t> dirty_;
};

}  // namespace prefix
