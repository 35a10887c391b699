#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/elementary.h"
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

// How many of the frequencies, which fall, turn at least `turns` times in the original length.
double yarn_correction(double turns, const RopeConfig& rope, int32_t dim) {
  return dim * portable_log(rope.original_max_positions / (turns * 2 * std::numbers::pi)) /
         (2 * portable_log(rope.theta));
}

// The share of the stretched frequency in the blend of each.
std::vector<float> yarn_ramp(const RopeConfig& rope, int32_t dim) {
  double low = yarn_correction(rope.beta_fast, rope, dim);
  double high = yarn_correction(rope.beta_slow, rope, dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> ramp;
  for (int32_t i = 0; i < dim / 2; ++i)
    ramp.push_back(std::clamp(static_cast<float>((i - low) / (high - low)), 0.0f, 1.0f));
  return ramp;
}

// One row of each table. The angle is rounded to float32, as it is where the models were trained;
// cos and sin of that angle are then exact to the last bit of a float32.
void fill_row(float position, const std::vector<float>& frequencies, float scale, float* cos,
              float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = position * frequencies[i];
    cos[i] = static_cast<float>(portable_cos(angle)) * scale;
    sin[i] = static_cast<float>(portable_sin(angle)) * scale;
  }
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config, bool second_regime) {
  const RopeConfig& rope = config.rope;
  const int32_t dim = config.rotary_dim();
  std::vector<float> list, ramp;
  if (rope.type == RopeType::kYarn) ramp = yarn_ramp(rope, dim);
  for (int32_t i = 0; i < dim / 2; ++i) {
    const auto at = static_cast<size_t>(i);
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    auto power = static_cast<float>(portable_pow(rope.theta, exponent));
    if (rope.type == RopeType::kLongrope)
      power *= static_cast<float>((second_regime ? rope.long_factor : rope.short_factor)[at]);
    float frequency = 1.0f / power;
    if (rope.type == RopeType::kLinear) frequency /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::kYarn)
      frequency = ramp[at] / (static_cast<float>(rope.factor) * power) + (1 - ramp[at]) * frequency;
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

// Without those of layers with a window.
int64_t own_table_bytes(const ModelConfig& config, int32_t positions) {
  const int64_t half = config.rotary_dim() / 2;
  return int64_t{regimes_of(config.rope, positions)} * positions * half * 2 *
         int64_t{sizeof(float)};
}

}  // namespace

int64_t rope_table_bytes(const ModelConfig& config, int32_t positions) {
  const int64_t others =
      config.window_rope ? rope_table_bytes(config.of_window_rope(), positions) : 0;
  return others + own_table_bytes(config, positions);
}

RopeTables rope_tables(const ModelConfig& config, int32_t positions, int64_t free_bytes) {
  const RopeConfig& rope = config.rope;
  PREFIX_CHECK(positions > 0);
  if (const int64_t bytes = own_table_bytes(config, positions); 2 * bytes > free_bytes)
    fail(Code::kOutOfMemory, "rotary tables of ", positions, " positions take ", bytes,
         " bytes, and twice that while they are made; ", free_bytes,
         " are free (option max_positions makes them shorter)");
  RopeTables tables;
  tables.rotary_dim = config.rotary_dim();
  const int regimes = regimes_of(rope, positions);
  if (regimes == 2) tables.regime_switch = rope.original_max_positions;
  const auto scale = static_cast<float>(rope.attention_factor);
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
