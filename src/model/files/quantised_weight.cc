#include "model/files/quantised_weight.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

using Shape = std::vector<int64_t>;
using Scales = QuantScheme::Scales;

int64_t quotient_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

// Tensors of other dimensions, as [rows, columns].
Tensor reshaped(Tensor t, int64_t rows, int64_t columns) {
  t.shape = {rows, columns};
  return t;
}

std::string_view integers_of(int bits) { return bits == 4 ? "INT4" : "INT8"; }

// The numbers of a tensor with whole words only.
int64_t words_of(const Tensor& t, int64_t numbers, int bits) {
  const int64_t each = 32 / bits;
  if (numbers % each != 0)
    fail(Code::kFormat, "tensor ", quote(t.name), " is of a weight with ", numbers,
         " rows, not a multiple of ", each, " that one word holds");
  return numbers / each;
}

// ---- awq, gptq ---------------------------------------------------------------------------------

// [inputs, outputs] on disk; zeros are packed along the outputs by both.
void add_transposed_scales(const WeightParts& parts, const QuantScheme& s, int64_t rows,
                           QuantisedWeight& w) {
  const int64_t columns = w.parts.columns;
  w.parts.group = s.scales == Scales::kRow ? std::max<int64_t>(columns, 1) : s.group;
  w.parts.scale_columns = quotient_up(columns, w.parts.group);
  const Tensor& scales = parts.at(".scales");
  WeightParts::check_float(scales);
  WeightParts::check_shape(scales, {w.parts.scale_columns, rows});
  w.parts.scales = {.tensor = scales, .transposed = true};
  const Tensor& zeros = parts.at(".qzeros", TensorType::kI32, 2);
  WeightParts::check_shape(zeros, {w.parts.scale_columns, words_of(zeros, rows, s.bits)});
  w.parts.zeros = SmallNumbers{.tensor = zeros, .transposed = true, .bits = s.bits};
  w.parts.kind = integers_of(s.bits);
  w.shape = {rows, columns};
}

QuantisedWeight awq_weight(const WeightParts& parts, const QuantScheme& s) {
  QuantisedWeight w;
  const Tensor& codes = parts.at(".qweight", TensorType::kI32, 2);
  w.parts.columns = codes.shape[0];
  w.parts.codes = {.tensor = codes, .transposed = true, .bits = s.bits, .interleaved = true};
  add_transposed_scales(parts, s, codes.shape[1] * (32 / s.bits), w);
  w.parts.zeros->interleaved = true;
  return w;
}

QuantisedWeight gptq_weight(const WeightParts& parts, const QuantConfig& config,
                            const QuantScheme& s) {
  QuantisedWeight w;
  const Tensor& codes = parts.at(".qweight", TensorType::kI32, 2);
  w.parts.columns = codes.shape[0] * (32 / s.bits);
  w.parts.codes = {.tensor = codes, .transposed = true, .bits = s.bits, .down = true};
  add_transposed_scales(parts, s, codes.shape[1], w);
  // Added to a whole word, as it was taken away from one: a carry goes back where it came from.
  if (config.zeros_less_one) w.parts.zeros->added = s.bits == 4 ? 0x11111111 : 0x01010101;
  if (parts.find(".g_idx")) {
    const Tensor& groups = parts.at(".g_idx", TensorType::kI32, 1);
    WeightParts::check_shape(groups, {w.parts.columns});
    w.parts.groups = groups;
  }
  return w;
}

// ---- compressed-tensors, fp8 -------------------------------------------------------------------

// The shape of the scales of [rows, columns] weights.
Shape scales_shape(const QuantScheme& s, int64_t rows, int64_t columns) {
  switch (s.scales) {
    case Scales::kTensor:
      return {1, 1};
    case Scales::kRow:
      return {rows, 1};
    case Scales::kGroup:
      return {rows, quotient_up(columns, s.group)};
    case Scales::kBlock:
      return {quotient_up(rows, s.block_rows), quotient_up(columns, s.block_columns)};
  }
  return {};
}

// A scale of its own, a list of them, as a matrix.
Shape as_matrix(const Shape& shape) {
  if (shape.empty()) return {1, 1};
  if (shape.size() == 1) return {shape[0], 1};
  return shape;
}

void add_scales(const Tensor& scales, const QuantScheme& s, QuantisedWeight& w) {
  const Shape shape = scales_shape(s, w.shape[0], w.shape[1]);
  w.parts.scales = {.tensor = reshaped(scales, shape[0], shape[1])};
  w.parts.scale_columns = shape[1];
  w.parts.group = s.scales == Scales::kGroup   ? s.group
                  : s.scales == Scales::kBlock ? s.block_columns
                                               : std::max<int64_t>(w.shape[1], 1);
  w.parts.scales.rows_each = s.scales == Scales::kTensor  ? std::max<int64_t>(w.shape[0], 1)
                             : s.scales == Scales::kBlock ? s.block_rows
                                                          : 1;
}

// The two numbers of weight_shape.
Shape stored_shape(const Tensor& t) {
  WeightParts::check_type(t, {TensorType::kI64, TensorType::kI32});
  WeightParts::check_shape(t, {2});
  std::array<std::byte, 16> bytes{};
  read_blocks(t, 0, bytes.data());
  Shape shape(2);
  if (t.type == TensorType::kI64) {
    std::memcpy(shape.data(), bytes.data(), 16);
  } else {
    std::array<int32_t, 2> narrow{};
    std::memcpy(narrow.data(), bytes.data(), 8);
    shape = {narrow[0], narrow[1]};
  }
  for (const int64_t size : shape)
    if (size < 1 || size > kMaxTensorValues)
      fail(Code::kFormat, "tensor ", quote(t.name), " holds ", shape_text(shape),
           "; sizes are in [1, ", kMaxTensorValues, "]");
  return shape;
}

// The scheme that the shapes of scales and codes follow; the first of several.
const QuantScheme* scheme_for(const QuantConfig& config, const Shape& shape, const Tensor& codes,
                              const Tensor& scales, bool has_zeros) {
  for (const QuantScheme& s : config.schemes) {
    const bool is_float = codes.type == TensorType::kF8_E4M3 || codes.type == TensorType::kU8;
    if (s.is_float != is_float || (s.has_zeros && !has_zeros)) continue;
    if (codes.type == TensorType::kI32 && codes.shape[1] != quotient_up(shape[1] * s.bits, 32))
      continue;
    if (as_matrix(scales.shape) == scales_shape(s, shape[0], shape[1])) return &s;
  }
  return nullptr;
}

void add_zeros(const WeightParts& parts, const QuantScheme& s, QuantisedWeight& w) {
  const Tensor* zeros = parts.find(".weight_zero_point");
  if (!zeros) return;
  const Shape shape = scales_shape(s, w.shape[0], w.shape[1]);
  WeightParts::check_type(*zeros, {TensorType::kI32, TensorType::kI8});
  if (zeros->type == TensorType::kI32) {
    WeightParts::check_shape(*zeros, {quotient_up(shape[0] * s.bits, 32), shape[1]});
    w.parts.zeros = SmallNumbers{
        .tensor = *zeros, .bits = s.bits, .down = true, .meaning = SmallNumbers::Meaning::kCentred};
  } else {
    WeightParts::check_shape({.name = zeros->name, .shape = as_matrix(zeros->shape)}, shape);
    w.parts.zeros = SmallNumbers{.tensor = reshaped(*zeros, shape[0], shape[1])};
  }
  w.parts.zeros->rows_each = w.parts.scales.rows_each;
}

QuantisedWeight compressed_weight(const WeightParts& parts, const QuantConfig& config) {
  QuantisedWeight w;
  const bool packed = parts.find(".weight_packed") || !parts.find(".weight");
  const Tensor& codes = parts.at(packed ? ".weight_packed" : ".weight");
  if (packed)
    WeightParts::check_type(codes, {TensorType::kI32, TensorType::kU8});
  else
    WeightParts::check_type(codes, {TensorType::kI8, TensorType::kF8_E4M3});
  WeightParts::check_dimensions(codes, 2);
  const Tensor& scales = parts.at(".weight_scale");
  const bool is_mxfp4 = codes.type == TensorType::kU8;
  w.shape = is_mxfp4 ? Shape{codes.shape[0], 2 * codes.shape[1]}
            : packed ? stored_shape(parts.at(".weight_shape"))
                     : codes.shape;
  const QuantScheme* const s =
      scheme_for(config, w.shape, codes, scales, parts.find(".weight_zero_point") != nullptr);
  if (!s || w.shape[0] != codes.shape[0])
    fail(Code::kFormat, "tensor ", quote(codes.name), " of type ", codes.kind(), " and shape ",
         shape_text(codes.shape), " with scales of shape ", shape_text(scales.shape),
         " is a weight of shape ", shape_text(w.shape), " in none of the ", config.schemes.size(),
         " ways that config_groups gives (bits, strategy, group size, zero points)");
  w.parts.columns = w.shape[1];
  add_scales(scales, *s, w);
  w.parts.codes = {.tensor = codes};
  if (is_mxfp4) {
    if (w.parts.columns % 32 != 0)
      fail(Code::kFormat, "tensor ", quote(codes.name), " has rows of ", w.parts.columns,
           " weights, not a multiple of the 32 of a block");
    WeightParts::check_type(scales, {TensorType::kU8, TensorType::kF8_E8M0});
    w.parts.scales.tensor.type = TensorType::kF8_E8M0;
    w.parts.codes.tensor = reshaped(codes, codes.shape[0], codes.shape[1] / 4);
    w.parts.codes.tensor.type = TensorType::kI32;
    w.parts.codes.bits = 4;
    w.parts.codes.meaning = SmallNumbers::Meaning::kE2M1;
    w.parts.kind = "MXFP4";
    return w;
  }
  WeightParts::check_float(scales);
  add_zeros(parts, *s, w);
  if (packed) {
    w.parts.codes.bits = s->bits;
    w.parts.codes.meaning = SmallNumbers::Meaning::kCentred;
  }
  if (const Tensor* groups = parts.find(".weight_g_idx")) {
    WeightParts::check_type(*groups, {TensorType::kI32});
    WeightParts::check_shape(*groups, {w.parts.columns});
    w.parts.groups = *groups;
  }
  w.parts.kind = s->is_float ? "F8_E4M3" : integers_of(s->bits);
  return w;
}

QuantisedWeight fp8_weight(const WeightParts& parts, const QuantConfig& config) {
  QuantisedWeight w;
  const Tensor& codes = parts.at(".weight", TensorType::kF8_E4M3, 2);
  const bool inverse = parts.find(".weight_scale_inv") || !config.schemes.empty();
  const Tensor& scales = parts.at(inverse ? ".weight_scale_inv" : ".weight_scale");
  WeightParts::check_float(scales);
  w.shape = codes.shape;
  w.parts.columns = w.shape[1];
  QuantScheme s;
  if (!config.schemes.empty()) {
    s = config.schemes.front();
  } else {
    const bool one = as_matrix(scales.shape) == Shape{1, 1};
    s.scales = one ? Scales::kTensor : Scales::kRow;
  }
  const Shape shape = scales_shape(s, w.shape[0], w.shape[1]);
  if (as_matrix(scales.shape) != shape) WeightParts::check_shape(scales, shape);
  add_scales(scales, s, w);
  w.parts.codes = {.tensor = codes};
  w.parts.kind = "F8_E4M3";
  return w;
}

// ---- mxfp4 -------------------------------------------------------------------------------------

// blocks [..., rows, blocks of a row, 16 bytes], scales [..., rows, blocks of a row].
QuantisedWeight mxfp4_weight(const WeightParts& parts) {
  QuantisedWeight w;
  constexpr int64_t kBytes = 16;
  const Tensor& codes = parts.at("_blocks");
  const Tensor& scales = parts.at("_scales");
  WeightParts::check_type(codes, {TensorType::kU8});
  WeightParts::check_type(scales, {TensorType::kU8, TensorType::kF8_E8M0});
  if (codes.shape.size() < 3 || codes.shape.back() != kBytes)
    fail(Code::kFormat, "tensor ", quote(codes.name), " has shape ", shape_text(codes.shape),
         "; it must be [rows, blocks, ", kBytes, "], or several of these");
  Shape shape(codes.shape.begin(), codes.shape.end() - 1);
  WeightParts::check_shape(scales, shape);
  const int64_t blocks = shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  w.parts.columns = 32 * blocks;
  w.parts.group = 32;
  w.parts.scale_columns = blocks;
  w.parts.scales = {.tensor = reshaped(scales, rows, blocks)};
  w.parts.scales.tensor.type = TensorType::kF8_E8M0;
  w.parts.codes = {.tensor = reshaped(codes, rows, 4 * blocks),
                   .bits = 4,
                   .meaning = SmallNumbers::Meaning::kE2M1};
  w.parts.codes.tensor.type = TensorType::kI32;
  w.parts.kind = "MXFP4";
  w.shape = std::move(shape);
  w.shape.back() = w.parts.columns;
  return w;
}

}  // namespace

const Tensor& WeightParts::at(std::string_view part) const {
  const Tensor* t = find(part);
  if (!t)
    fail(Code::kFormat, "tensor ", quote(name(part)),
         " is missing; the weights of this module are quantised");
  return *t;
}

const Tensor& WeightParts::at(std::string_view part, TensorType type, size_t dimensions) const {
  const Tensor& t = at(part);
  check_type(t, {type});
  check_dimensions(t, dimensions);
  return t;
}

void WeightParts::check_type(const Tensor& t, std::initializer_list<TensorType> types) {
  if (std::ranges::find(types, t.type) != types.end()) return;
  std::string known;
  for (const TensorType type : types)
    known += (known.empty() ? "" : ", ") + std::string(tensor_type_name(type));
  fail(Code::kUnsupportedModel, "tensor ", quote(t.name), " has dtype ", t.kind(),
       " (supported: ", known, ")");
}

void WeightParts::check_float(const Tensor& t) {
  check_type(t, {TensorType::kF32, TensorType::kF16, TensorType::kBF16});
}

void WeightParts::check_dimensions(const Tensor& t, size_t dimensions) {
  if (t.shape.size() != dimensions)
    fail(Code::kFormat, "tensor ", quote(t.name), " has shape ", shape_text(t.shape),
         "; it must have ", dimensions, " dimensions");
}

void WeightParts::check_shape(const Tensor& t, const Shape& shape) {
  if (t.shape != shape)
    fail(Code::kFormat, "tensor ", quote(t.name), " has shape ", shape_text(t.shape),
         "; with the other parts of this weight it must be ", shape_text(shape));
}

QuantisedWeight quantised_weight(const QuantConfig& config, const WeightParts& parts) {
  switch (config.method) {
    case QuantMethod::kNone:
      break;
    case QuantMethod::kCompressedTensors:
      return compressed_weight(parts, config);
    case QuantMethod::kAwq:
      return awq_weight(parts, config.schemes.front());
    case QuantMethod::kGptq:
      return gptq_weight(parts, config, config.schemes.front());
    case QuantMethod::kFp8:
      return fp8_weight(parts, config);
    case QuantMethod::kMxfp4:
      return mxfp4_weight(parts);
  }
  fail(Code::kInternal, "a weight is quantised by no method");
}

}  // namespace prefix
