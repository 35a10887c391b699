#include "model/rope.h"

#include <cmath>
#include <numbers>

#include "base/status.h"

namespace prefix {
namespace {

// Llama 3: long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
float llama3_frequency(float frequency, const RopeConfig& rope) {
  const double original = rope.original_max_positions;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength > original / rope.low_freq_factor)
    return static_cast<float>(frequency / rope.factor);
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return static_cast<float>((1 - smooth) * frequency / rope.factor + smooth * frequency);
}

std::vector<float> frequencies(const RopeConfig& rope, int32_t rotary_dim, bool second_regime) {
  std::vector<float> list;
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    float power = static_cast<float>(std::pow(rope.theta, exponent));
    const auto at = static_cast<size_t>(i);
    if (rope.type == RopeType::kLongrope)
      power *= static_cast<float>(second_regime ? rope.long_factor[at] : rope.short_factor[at]);
    float frequency = 1.0f / power;
    if (rope.type == RopeType::kLinear) frequency /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::kLlama3) frequency = llama3_frequency(frequency, rope);
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[at];
    list.push_back(frequency);
  }
  return list;
}

// longrope scales queries and keys so that attention keeps its sharpness over a longer context.
double longrope_scale(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  if (rope.attention_factor > 0) return rope.attention_factor;
  const double factor =
      static_cast<double>(config.max_positions) / static_cast<double>(rope.original_max_positions);
  return factor <= 1 ? 1
                     : std::sqrt(1 + std::log(factor) /
                                         std::log(static_cast<double>(rope.original_max_positions)));
}

}  // namespace

RopeTables rope_tables(const ModelConfig& config, int32_t positions) {
  const RopeConfig& rope = config.rope;
  RopeTables tables;
  tables.rotary_dim = static_cast<int32_t>(config.head_dim * rope.partial_rotary_factor + 1e-9);
  if (tables.rotary_dim < 2 || tables.rotary_dim % 2 != 0)
    fail(Code::kFormat, "the rotary dimension is ", tables.rotary_dim, " (head_dim ",
         config.head_dim, " x partial_rotary_factor ", rope.partial_rotary_factor,
         "); it must be even and positive");
  const bool longrope = rope.type == RopeType::kLongrope;
  const auto half = static_cast<size_t>(tables.rotary_dim / 2);
  for (const auto* list : {&rope.short_factor, &rope.long_factor})
    if (longrope && list->size() != half)
      fail(Code::kFormat, "longrope has ", list->size(), " factors; the rotary dimension of ",
           tables.rotary_dim, " needs ", half);
  const int regimes = longrope && positions > rope.original_max_positions ? 2 : 1;
  if (regimes == 2) tables.regime_switch = rope.original_max_positions;
  const auto scale = static_cast<float>(longrope ? longrope_scale(config) : 1);
  const auto rows = static_cast<size_t>(positions);
  tables.cos.resize(static_cast<size_t>(regimes) * rows * half);
  tables.sin.resize(tables.cos.size());
  for (int regime = 0; regime < regimes; ++regime) {
    const std::vector<float> list = frequencies(rope, tables.rotary_dim, regime == 1);
    for (size_t p = 0; p < rows; ++p) {
      const size_t row = (static_cast<size_t>(regime) * rows + p) * half;
      for (size_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * list[i];
        tables.cos[row + i] = static_cast<float>(std::cos(static_cast<double>(angle))) * scale;
        tables.sin[row + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * scale;
      }
    }
  }
  return tables;
}

}  // namespace prefix
