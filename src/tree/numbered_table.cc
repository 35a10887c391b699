#include "tree/numbered_table.h"

#include <utility>

#include "base/status.h"

namespace prefix {
namespace {

// What is looked at to find followers of one column, for each row: enough for all pairs of 64
// columns. Of a wider table the first columns are tried, so that time and memory go by its cells
// and not by the square of its columns.
constexpr size_t kLooks = 128;

// 64 bits of any origin to a place in a table of 2^bits.
size_t spread(int64_t value, int bits) {
  auto x = static_cast<uint64_t>(value) * 0x9e3779b97f4a7c15U;
  x ^= x >> 32;
  return static_cast<size_t>((x * 0xd6e8feb86659fd93U) >> (64 - bits));
}

// Numbers the values of a column; open addressing, because tables have tens of millions of cells.
class Numbering {
 public:
  explicit Numbering(size_t rows) {
    while (bits_ < 63 && (size_t{1} << bits_) < rows / 8) ++bits_;
    slots_.assign(size_t{1} << bits_, {0, kFree});
  }
  // The number, and whether it is new.
  std::pair<uint32_t, bool> of(int64_t value) {
    if (2 * size_t{count_} >= slots_.size()) grow();
    Slot& slot = find(value);
    if (slot.number != kFree) return {slot.number, false};
    slot = {value, count_++};
    return {slot.number, true};
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    int64_t value;
    uint32_t number;
  };
  Slot& find(int64_t value) {
    size_t at = spread(value, bits_);
    while (slots_[at].number != kFree && slots_[at].value != value)
      at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(size_t{1} << ++bits_, {0, kFree});
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.number != kFree) find(slot.value) = slot;
  }

  int bits_ = 6;
  uint32_t count_ = 0;
  std::vector<Slot> slots_;
};

NumberedTable numbered(std::span<const int64_t> values, std::span<const int32_t> lengths,
                       int32_t columns) {
  NumberedTable t;
  t.columns = columns;
  const auto width = static_cast<size_t>(columns);
  t.rows = static_cast<uint32_t>(values.size() / width);
  t.cells.resize(values.size());
  t.lengths.resize(width);
  for (size_t c = 0; c < width; ++c) {
    Numbering numbering(t.rows);
    std::vector<int32_t>& of = t.lengths[c];
    for (size_t at = c; at < values.size(); at += width) {
      const auto [number, is_new] = numbering.of(values[at]);
      t.cells[at] = number;
      if (is_new) of.push_back(lengths[at]);
      if (of[number] != lengths[at])
        fail(Code::kInvalidArgument, "row ", at / width, ", column ", c, ": value ", values[at],
             " has length ", lengths[at], ", and ", of[number],
             " in a row before; a value of a column has one length");
    }
  }
  return t;
}

// Adds to `looks` what it looks at.
bool determines(const NumberedTable& t, int32_t from, int32_t to, std::vector<uint32_t>& seen,
                size_t& looks) {
  const size_t values = t.lengths[static_cast<size_t>(from)].size();
  ++looks;
  if (values < t.lengths[static_cast<size_t>(to)].size()) return false;
  seen.assign(values, UINT32_MAX);
  looks += values;
  for (uint32_t r = 0; r < t.rows; ++r) {
    ++looks;
    uint32_t& with = seen[t.row(r)[from]];
    const uint32_t value = t.row(r)[to];
    if (with == UINT32_MAX) with = value;
    if (with != value) return false;
  }
  return true;
}

void find_followers(NumberedTable& t) {
  std::vector<uint32_t> seen;
  t.followers.resize(static_cast<size_t>(t.columns));
  for (int32_t from = 0; from < t.columns; ++from) {
    if (t.lengths[static_cast<size_t>(from)].size() == t.rows) continue;  // no group at all
    size_t looks = 0;
    for (int32_t to = 0; to < t.columns && looks < kLooks * t.rows; ++to)
      if (from != to && determines(t, from, to, seen, looks))
        t.followers[static_cast<size_t>(from)].push_back(to);
  }
}

}  // namespace

NumberedTable number_table(std::span<const int64_t> values, std::span<const int32_t> lengths,
                           int32_t columns) {
  NumberedTable t = numbered(values, lengths, columns);
  find_followers(t);
  return t;
}

}  // namespace prefix
