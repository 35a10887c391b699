// The pages that hold keys and values, as numbers.
//
//   page number   0    1    2    3    4   ...   capacity - 1
//   references  [ 1 ][ 2 ][ 0 ][ 1 ][ 0 ]       0 = free
//
// A page belongs to the tree nodes that list it: two after a split in mid-page, one otherwise. The
// bytes live elsewhere (KvMemory, kv_memory.h); this class only counts. A page that was used before
// and is handed out again is listed by take_dirty(): its bytes must be zeroed before the next step.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace prefix {

class PagePool {
 public:
  explicit PagePool(int32_t capacity) : capacity_(capacity) {}

  int32_t capacity() const { return capacity_; }
  int32_t used() const { return used_; }
  int32_t peak() const { return peak_; }
  // Pages that can be handed out now and are not promised to a running request.
  int32_t available() const { return capacity_ - used_ - reserved_; }

  // A page with one reference; the caller has checked available(), or takes from its reservation.
  int32_t allocate() {
    int32_t page;
    if (!free_.empty()) {
      page = free_.back();
      free_.pop_back();
      dirty_.push_back(page);
    } else {
      page = static_cast<int32_t>(references_.size());
      references_.push_back(0);
    }
    references_[page] = 1;
    if (++used_ > peak_) peak_ = used_;
    return page;
  }
  void share(int32_t page) { ++references_[page]; }
  void release(int32_t page) {
    if (--references_[page] == 0) {
      free_.push_back(page);
      --used_;
    }
  }
  int32_t references(int32_t page) const { return references_[page]; }

  // Promises pages to a request that will need them later (generation), so that admission of
  // others cannot starve it.
  void reserve(int32_t pages) { reserved_ += pages; }
  void unreserve(int32_t pages) { reserved_ -= pages; }

  std::vector<int32_t> take_dirty() { return std::exchange(dirty_, {}); }

 private:
  int32_t capacity_;
  int32_t used_ = 0;
  int32_t peak_ = 0;
  int32_t reserved_ = 0;
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
  std::vector<int32_t> dirty_;
};

}  // namespace prefix
