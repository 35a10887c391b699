// Models that no GPU runs are refused by a sentence when they are loaded or estimated.
#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "model/config/config.h"
#include "model/step_memory.h"
#include "ops/gpu/workspace.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

ModelConfig plain() {
  ModelConfig c;
  c.layers = 3;
  c.max_positions = 512;
  return c;
}

struct Refused {
  std::function<void(ModelConfig&)> change;
  std::string_view what;
};

TEST(GpuModels, WhatOnlyTheCpuRunsIsRefused) {
  const ops::gpu::GpuSizes gpu(ops::kBf16Types, 132, 0);
  check_device(plain(), gpu);
  const Refused cases[] = {
      {[](ModelConfig& c) {
         c.layer_kinds = {LayerKind::kRecurrent, LayerKind::kAttention, LayerKind::kRecurrent};
       },
       "2 of the 3 layers are recurrent"},
      // Qwen3.5 may have layers of attention alone.
      {[](ModelConfig& c) { c.attention_gate = true; }, "the output of attention is gated"},
      {[](ModelConfig& c) {
         c.experts.count = 6;
         c.experts.layers = {1, 1, 1};
       },
       "the feed-forward layers have 6 experts"},
      {[](ModelConfig& c) { c.bidirectional = true; }, "attention is bidirectional"},
      {[](ModelConfig& c) { c.windows = {0, 511, 0}; }, "layer 1 has a sliding window of 511 keys"},
      {[](ModelConfig& c) { c.score_cap = 50; }, "the attention scores have a soft cap"},
      {[](ModelConfig& c) { c.logit_cap = 30; }, "the logits have a soft cap"},
      {[](ModelConfig& c) { c.feed_forward = FeedForward::kSquaredRelu; },
       "the feed-forward layers have no gate"},
      {[](ModelConfig& c) { c.activation = ops::ActivationFn::kClampedSwiglu; },
       "the gate of the feed-forward layers is clamped"},
  };
  for (const Refused& refused : cases) {
    ModelConfig c = plain();
    refused.change(c);
    expect_error(Code::kUnsupportedDevice, {refused.what, "such models run on device \"cpu\" only"},
                 [&] { check_device(c, gpu); });
  }
}

// A window as long as the context is none.
TEST(GpuModels, AWindowThatHidesNothingIsFine) {
  ModelConfig c = plain();
  c.windows = {512, 600, 0};
  check_device(c, ops::gpu::GpuSizes(ops::kBf16Types, 132, 0));
}

}  // namespace
}  // namespace prefix
