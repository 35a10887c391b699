#include "model/config/config.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "model/architecture.h"

namespace prefix {

namespace {

void check_multiplier(const char* name, double value) {
  if (!(value >= 1 / ConfigLimits::kMultiplier && value <= ConfigLimits::kMultiplier))
    fail(Code::kFormat, "the ", name, " is ", value, ", outside [", 1 / ConfigLimits::kMultiplier,
         ", ", ConfigLimits::kMultiplier, "]");
}

void check_recurrent(const ModelConfig& c) {
  const RecurrentConfig& r = c.recurrent;
  if (r.heads % r.groups != 0)
    fail(Code::kFormat, "the number of ",
         r.mixer == Mixer::kGatedDelta ? "value heads (" : "recurrent heads (", r.heads,
         ") is not a multiple of the number of ",
         r.mixer == Mixer::kGatedDelta ? "key heads (" : "groups (", r.groups, ")");
}

void check_rope(const ModelConfig& c) {
  const RopeConfig& rope = c.rope;
  if (!(rope.theta >= 1 && rope.theta <= 1e15))
    fail(Code::kFormat, "rope theta is ", rope.theta, ", outside [1, 1e15]");
  if (!(rope.partial_rotary_factor > 0 && rope.partial_rotary_factor <= 1))
    fail(Code::kFormat, "partial_rotary_factor is ", rope.partial_rotary_factor,
         ", outside (0, 1]");
  const int32_t rotary = c.rotary_dim();
  if (rotary < 2 || rotary % 2 != 0)
    fail(Code::kFormat, "the rotary dimension is ", rotary, " (head dimension ", c.head_dim,
         " x partial_rotary_factor ", rope.partial_rotary_factor,
         "); it must be even and positive");
  if (rotary != c.head_dim && !find_architecture(c.architecture).config.partial_rotary)
    fail(Code::kUnsupportedModel, "architecture \"", c.architecture, "\" rotates whole heads of ",
         c.head_dim, " dimensions; rotating ", rotary, " of them is not supported");
  if (rope.type == RopeType::kYarn && rope.theta <= 1)
    fail(Code::kFormat, "rope theta is ", rope.theta, "; yarn needs more than 1");
  if (rope.type != RopeType::kLongrope) return;
  for (const auto* list : {&rope.short_factor, &rope.long_factor})
    if (list->size() != static_cast<size_t>(rotary / 2))
      fail(Code::kFormat, "longrope has ", list->size(), " factors; a rotary dimension of ", rotary,
           " needs ", rotary / 2);
}

}  // namespace

int32_t ModelConfig::recurrent_count() const {
  return static_cast<int32_t>(std::ranges::count(layer_kinds, LayerKind::kRecurrent));
}

ModelConfig ModelConfig::of_window_rope() const {
  ModelConfig other = *this;
  if (window_rope) other.rope = *window_rope;
  other.window_rope.reset();
  return other;
}

void check_config(const ModelConfig& c) {
  if (c.heads % c.kv_heads != 0)
    fail(Code::kFormat, "the number of attention heads (", c.heads,
         ") is not a multiple of the number of key-value heads (", c.kv_heads, ")");
  if (c.head_dim % 2 != 0)
    fail(Code::kFormat, "the head dimension is ", c.head_dim, "; it must be even");
  if (!(c.norm_eps > 0 && c.norm_eps < 1))
    fail(Code::kFormat, "the epsilon of the norms is ", c.norm_eps, ", outside (0, 1)");
  if (!c.layer_kinds.empty() && !std::ranges::count(c.layer_kinds, LayerKind::kAttention))
    fail(Code::kUnsupportedModel, "none of the ", c.layers,
         " layers is of attention; a model needs one at least");
  if (c.recurrent_count() > 0) check_recurrent(c);
  if (c.bidirectional && c.recurrent_count() > 0)  // a state is of the tokens before it
    fail(Code::kUnsupportedModel, "attention is bidirectional, and ", c.recurrent_count(),
         " of the ", c.layers, " layers are recurrent; only one of the two is supported");
  check_multiplier("multiplier of the embedding", c.embedding_multiplier);
  check_multiplier("multiplier of the residual", c.residual_multiplier);
  check_multiplier("scaling of the logits", c.logits_scaling);
  if (c.attention_scale != 0) check_multiplier("multiplier of attention scores", c.attention_scale);
  if (c.score_cap != 0) check_multiplier("soft cap of attention scores", c.score_cap);
  if (c.logit_cap != 0) check_multiplier("soft cap of logits", c.logit_cap);
  if (!c.rotates) return;
  check_rope(c);
  if (!c.window_rope) return;
  check_rope(c.of_window_rope());
  if (c.rope.type == RopeType::kLongrope || c.window_rope->type == RopeType::kLongrope)
    fail(Code::kUnsupportedModel, "rope type \"longrope\" is not supported where layers with a ",
         "window rotate by a table of their own");
}

double longrope_attention_factor(double factor, int32_t original_max_positions) {
  // ln(1) = 0: one original position gives no scale to compare with.
  if (factor <= 1 || original_max_positions <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_max_positions)));
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace prefix
