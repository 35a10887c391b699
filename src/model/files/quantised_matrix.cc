#include "model/files/quantised_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "model/files/quantised_blocks.h"
#include "ops/block_layout.h"
#include "ops/dequant.h"

namespace prefix {
namespace {

constexpr std::array<float, 16> kE2M1 = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                         -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
// Where AWQ has number i of 8.
constexpr std::array<int, 8> kInterleaved = {0, 4, 1, 5, 2, 6, 3, 7};

// The row (or, transposed, the column) `at` of a tensor as the file has it.
void read_stored(const SmallNumbers& from, Strips& strips, int64_t at, std::byte* out) {
  if (from.transposed)
    strips.column(from.tensor, at, out);
  else
    read_blocks(from.tensor, at, out);
}

}  // namespace

void SmallNumbers::read(Strips& strips, int64_t row, int64_t columns, float* out) const {
  row /= rows_each;
  const int64_t elements = tensor.shape[transposed ? 0 : 1];
  if (bits == 0) {
    std::vector<std::byte> stored(static_cast<size_t>(elements * block_bytes(tensor.type)));
    read_stored(*this, strips, row, stored.data());
    return dequantise(tensor.type, stored.data(), columns, out);
  }
  const int per_word = 32 / bits;
  const bool along_row = transposed == down;  // the numbers of a word are of one row
  std::vector<uint32_t> words(static_cast<size_t>(elements));
  read_stored(*this, strips, along_row ? row : row / per_word,
              reinterpret_cast<std::byte*>(words.data()));
  const uint32_t mask = (1u << bits) - 1;
  const int middle = meaning == Meaning::kCentred ? 1 << (bits - 1) : 0;
  const auto value = [&](uint32_t word, int shift) {
    const uint32_t code = (word + added) >> shift & mask;
    return meaning == Meaning::kE2M1 ? kE2M1[code]
                                     : static_cast<float>(static_cast<int>(code) - middle);
  };
  const auto shift_of = [&](int64_t i) {
    const auto at = static_cast<size_t>(i % per_word);
    return bits * (interleaved ? kInterleaved[at] : static_cast<int>(at));
  };
  if (!along_row) {
    for (int64_t c = 0; c < columns; ++c)
      out[c] = value(words[static_cast<size_t>(c)], shift_of(row));
    return;
  }
  for (int i = 0; i < per_word; ++i)
    for (int64_t c = i, word = 0; c < columns; c += per_word, ++word)
      out[c] = value(words[static_cast<size_t>(word)], shift_of(i));
}

QuantisedMatrix::QuantisedMatrix(Parts parts, std::shared_ptr<Strips> strips)
    : parts_(std::move(parts)), strips_(std::move(strips)) {}

// Empty where columns are in the order of their groups.
std::vector<int32_t> QuantisedMatrix::read_groups() const {
  std::vector<int32_t> groups;
  if (!parts_.groups) return groups;
  groups.resize(static_cast<size_t>(parts_.columns));
  read_blocks(*parts_.groups, 0, reinterpret_cast<std::byte*>(groups.data()));
  if (!groups.empty() && groups.front() == -1) return {};
  for (size_t c = 0; c < groups.size(); ++c)
    if (groups[c] < 0 || groups[c] >= parts_.scale_columns)
      fail(Code::kFormat, "tensor ", quote(parts_.groups->name), ": the group of column ", c,
           " is ", groups[c], ", outside [0, ", parts_.scale_columns, ")");
  return groups;
}

QuantisedMatrix::Scales QuantisedMatrix::read_scales(int64_t row) const {
  const auto count = static_cast<size_t>(parts_.scale_columns);
  Scales made{std::vector<float>(count), std::vector<float>(count)};
  auto& [scales, zeros] = made;
  parts_.scales.read(*strips_, row, parts_.scale_columns, scales.data());
  for (size_t i = 0; i < count; ++i)
    if (!std::isfinite(scales[i]))
      fail(Code::kFormat, "tensor ", quote(parts_.scales.tensor.name), ": scale ", i, " of row ",
           row, " is ", scales[i], "; scales are finite");
  if (parts_.zeros) parts_.zeros->read(*strips_, row, parts_.scale_columns, zeros.data());
  return made;
}

void QuantisedMatrix::read_row(int64_t row, float* out) const {
  const auto [scales, zeros] = read_scales(row);
  parts_.codes.read(*strips_, row, parts_.columns, out);
  const std::vector<int32_t> groups = read_groups();
  const auto scale = [&, &scales = scales, &zeros = zeros](int64_t c, size_t g) {
    out[c] = parts_.zeros ? (out[c] - zeros[g]) * scales[g] : out[c] * scales[g];
  };
  if (!groups.empty()) {
    for (int64_t c = 0; c < parts_.columns; ++c)
      scale(c, static_cast<size_t>(groups[static_cast<size_t>(c)]));
    return;
  }
  for (size_t g = 0; g < scales.size(); ++g) {
    const int64_t begin = static_cast<int64_t>(g) * parts_.group;
    const int64_t end = std::min(parts_.columns, begin + parts_.group);
    for (int64_t c = begin; c < end; ++c) scale(c, g);
  }
}

std::optional<TensorType> QuantisedMatrix::blocks() const {
  std::call_once(blocks_found_, [&] { blocks_ = blocks_of(parts_, read_groups()); });
  return blocks_;
}

void QuantisedMatrix::read_row_blocks(int64_t row, std::byte* out) const {
  const std::optional<TensorType> type = blocks();
  PREFIX_CHECK(type);
  const auto [scales, zeros] = read_scales(row);
  const auto group = [&](int64_t c) {
    return static_cast<size_t>(parts_.scale_columns > 1 ? c / parts_.group : 0);
  };
  const int64_t step = block_bytes(*type);
  if (*type == TensorType::kMXFP4) {  // no code is looked at
    std::vector<std::byte> codes(static_cast<size_t>(parts_.columns / 2));
    read_blocks(parts_.codes.tensor, row, codes.data());
    for (int64_t c = 0; c < parts_.columns; c += ops::kGroupK, out += step)
      write_mxfp4(codes.data() + c / 2, scales[group(c)], out);
    return;
  }
  std::vector<float> codes(static_cast<size_t>(parts_.columns));
  parts_.codes.read(*strips_, row, parts_.columns, codes.data());
  for (int64_t c = 0; c < parts_.columns; c += ops::kGroupK, out += step)
    write_block(*type, codes.data() + c, zeros[group(c)], scales[group(c)], out);
}

}  // namespace prefix
