#include "model/rope.h"

#include <cmath>
#include <numbers>

#include "base/status.h"

namespace prefix {
namespace {

// Wavelengths above original / low are stretched by `factor`, those below original / high kept.
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

// One row of each table. The angle is rounded to float32, as it is where the models were trained;
// cos and sin of that angle are then exact to the last bit of a float32.
void fill_row(float position, const std::vector<float>& frequencies, float scale, float* cos,
              float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = position * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle)) * scale;
    sin[i] = static_cast<float>(std::sin(angle)) * scale;
  }
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config, bool second_regime) {
  const RopeConfig& rope = config.rope;
  const int32_t dim = config.rotary_dim();
  std::vector<float> list;
  for (int32_t i = 0; i < dim / 2; ++i) {
    const auto at = static_cast<size_t>(i);
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    auto power = static_cast<float>(std::pow(rope.theta, exponent));
    if (rope.type == RopeType::kLongrope)
      power *= static_cast<float>((second_regime ? rope.long_factor : rope.short_factor)[at]);
    float frequency = 1.0f / power;
    if (rope.type == RopeType::kLinear) frequency /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::kLlama3) frequency = llama3_frequency(frequency, rope);
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[at];
    list.push_back(frequency);
  }
  return list;
}

namespace {

int regimes_of(const RopeConfig& rope, int32_t positions) {
  return rope.type == RopeType::kLongrope && positions > rope.original_max_positions ? 2 : 1;
}

}  // namespace

int64_t rope_table_bytes(const ModelConfig& config, int32_t positions) {
  const int64_t half = config.rotary_dim() / 2;
  return int64_t{regimes_of(config.rope, positions)} * positions * half * 2 *
         int64_t{sizeof(float)};
}

RopeTables rope_tables(const ModelConfig& config, int32_t positions) {
  const RopeConfig& rope = config.rope;
  PREFIX_CHECK(positions > 0);
  RopeTables tables;
  tables.rotary_dim = config.rotary_dim();
  const bool longrope = rope.type == RopeType::kLongrope;
  const int regimes = regimes_of(rope, positions);
  if (regimes == 2) tables.regime_switch = rope.original_max_positions;
  const auto scale = longrope ? static_cast<float>(rope.attention_factor) : 1.0f;
  const auto rows = static_cast<size_t>(positions);
  const auto half = static_cast<size_t>(tables.rotary_dim / 2);
  tables.cos.resize(static_cast<size_t>(regimes) * rows * half);
  tables.sin.resize(tables.cos.size());
  for (int regime = 0; regime < regimes; ++regime) {
    const std::vector<float> frequencies = rope_frequencies(config, regime == 1);
    for (size_t p = 0; p < rows; ++p) {
      const size_t row = (static_cast<size_t>(regime) * rows + p) * half;
      fill_row(static_cast<float>(p), frequencies, scale, tables.cos.data() + row,
               tables.sin.data() + row);
    }
  }
  return tables;
}

}  // namespace prefix
