#include "tree/hybrid_cost.h"

#include <limits>

namespace prefix {

int64_t HybridCost::flops(int64_t tokens) const {
  return recurrent_layers * recurrent.of(tokens) + attention_layers * attention.of(tokens) +
         mlp_layers * mlp.of(tokens);
}

int64_t HybridCost::flops_between(int64_t begin, int64_t end) const {
  const LayerFlops& of_parent = mlp_minus_attention ? attention : mlp;
  return recurrent_layers * recurrent.of(end - begin) +
         attention_layers * (attention.of(end) - attention.of(begin)) +
         mlp_layers * (mlp.of(end) - of_parent.of(begin));
}

int64_t HybridCost::max_tokens() const {
  // A quarter of the range: differences and bytes are summed as well.
  constexpr double kLimit = static_cast<double>(std::numeric_limits<int64_t>::max() / 4);
  const auto fits = [&](int64_t tokens) {
    const auto n = static_cast<double>(tokens);
    const auto layers = [&](int64_t count, const LayerFlops& f) {
      const auto linear = static_cast<double>(f.linear);
      return static_cast<double>(count) * (linear + static_cast<double>(f.quadratic) * n) * n;
    };
    const double subtracted = layers(mlp_layers, mlp_minus_attention ? attention : mlp);
    return layers(recurrent_layers, recurrent) + layers(attention_layers, attention) + subtracted +
               layers(mlp_layers, mlp) <=
           kLimit;
  };
  int64_t low = 0;
  for (int64_t step = int64_t{1} << 40; step > 0; step /= 2)
    if (fits(low + step)) low += step;
  return low;
}

HybridCost marconi_cost(const MarconiModel& model) {
  const int64_t d = model.width;
  const int64_t n = model.state_width;
  return {
      .recurrent_layers = model.recurrent_layers,
      .attention_layers = model.attention_layers,
      .mlp_layers = model.mlp_layers,
      .recurrent = {.linear = 12 * d * d + 16 * d * n + 10 * d},
      .attention = {.linear = 8 * d * d, .quadratic = 4 * d},
      .mlp = {.linear = 16 * d * d},
      // The state, and four columns of the convolution's input.
      .state_bytes = model.recurrent_layers * (2 * d * n + 2 * (2 * d + 2 * n) * 4),
      .kv_bytes = model.attention_layers * 4 * d,
  };
}

}  // namespace prefix
