// Keys of the simulator: every different page of atoms has a number while it is in the tree.
//
//   page 2, bigrams:  tokens 5 6 7 8 9  ->  "5 6 7", "7 8 9"  ->  keys 0, 1
//
// With pages of one token the token itself is the key, and nothing is stored.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace prefix {

class PageNumbers {
 public:
  static constexpr int32_t kUnknown = -1;

  PageNumbers(int32_t page, bool bigram)
      : page_(static_cast<size_t>(page)), extra_(bigram ? 1 : 0) {}

  // Whole pages.
  int64_t count(std::span<const int32_t> tokens) const {
    const size_t atoms = tokens.size() > extra_ ? tokens.size() - extra_ : 0;
    return static_cast<int64_t>(atoms / page_);
  }
  // The keys of the whole pages; kUnknown for a page that has no number, and so is nowhere.
  std::vector<int32_t> find(std::span<const int32_t> tokens) const {
    if (direct()) return {tokens.begin(), tokens.end()};
    std::vector<int32_t> keys(static_cast<size_t>(count(tokens)));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = numbers_.find(text(tokens, i));
      keys[i] = at == numbers_.end() ? kUnknown : at->second;
    }
    return keys;
  }

  // Counts one more use of keys[from...], which find() gave for `tokens`, after numbers were given
  // to those without one. All or nothing.
  void use(std::span<const int32_t> tokens, size_t from, std::vector<int32_t>& keys) {
    if (direct()) return;
    size_t done = from;
    try {
      for (; done < keys.size(); ++done) {
        if (keys[done] == kUnknown) keys[done] = number_of(text(tokens, done));
        ++uses_[static_cast<size_t>(keys[done])];
      }
    } catch (...) {
      for (size_t i = from; i < done; ++i) drop(keys[i]);
      throw;
    }
  }
  // One use less; without any the number is free.
  void drop(int32_t key) noexcept {
    if (direct()) return;
    const auto at = static_cast<size_t>(key);
    if (--uses_[at] > 0) return;
    numbers_.erase(numbers_.find(std::string_view(*texts_[at])));
    free_.push_back(key);  // there is room for all of them
  }

  // Tokens of a key; those after the first key of a path begin where the one before ends.
  void append_tokens(int32_t key, std::vector<int32_t>& path) const {
    if (direct()) {
      path.push_back(key);
      return;
    }
    const std::string& text = *texts_[static_cast<size_t>(key)];
    const auto* tokens = reinterpret_cast<const int32_t*>(text.data());
    const size_t count = text.size() / sizeof(int32_t);
    path.insert(path.end(), tokens + (path.empty() ? 0 : extra_), tokens + count);
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  bool direct() const { return page_ == 1 && extra_ == 0; }
  std::string_view text(std::span<const int32_t> tokens, size_t i) const {
    return {reinterpret_cast<const char*>(tokens.data() + i * page_),
            (page_ + extra_) * sizeof(int32_t)};
  }
  int32_t number_of(std::string_view text) {
    if (const auto at = numbers_.find(text); at != numbers_.end()) return at->second;
    if (free_.empty()) {
      const auto fresh = static_cast<int32_t>(texts_.size());
      if (texts_.size() == texts_.capacity()) texts_.reserve(2 * texts_.size() + 64);
      uses_.reserve(texts_.capacity());
      free_.reserve(texts_.capacity());
      texts_.push_back(&numbers_.emplace(text, fresh).first->first);
      uses_.push_back(0);
      return fresh;
    }
    const int32_t again = free_.back();
    texts_[static_cast<size_t>(again)] = &numbers_.emplace(text, again).first->first;
    free_.pop_back();
    return again;
  }

  size_t page_;
  size_t extra_;  // tokens of a page that begin the next one too
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> texts_;  // by key
  std::vector<uint32_t> uses_;             // by key: places in the tree
  std::vector<int32_t> free_;              // keys; its capacity is that of all
};

}  // namespace prefix
