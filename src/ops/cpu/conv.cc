// The causal convolution of recurrent layers, in three passes: what the tasks share is brought
// together (the filters with taps outermost, the inputs of stored states), rows are computed, and
// inputs are stored, so that a state which is read and written is read first.
#include <algorithm>
#include <atomic>

#include "base/status.h"
#include "ops/cpu/state_pages.h"
#include "ops/cpu/step.h"
#include "ops/finite.h"
#include "ops/round_up.h"

namespace prefix::ops {
namespace {

constexpr int64_t kMaxWidth = 8;
// A task's rows and channels: the filters and the inputs of a row lie in the L1 cache, and a row is
// long enough for the hardware to fetch it ahead.
constexpr int64_t kTaskRows = 16;
constexpr int64_t kTaskChannels = 1024;

class Convolution {
 public:
  Convolution(const CpuContext& context, const StepArrays& step, const ScanWalk& walk,
              const ConvArgs& args, std::vector<int32_t>& not_finite)
      : context_(context),
        step_(step),
        walk_(walk),
        args_(args),
        not_finite_(not_finite),
        width_(step.state.conv_width),
        channels_(step.state.conv_channels) {
    PREFIX_CHECK(width_ >= 2 && width_ <= kMaxWidth);
    const auto loaded = static_cast<int64_t>(walk.loaded.size());
    const int64_t floats = channels_ * (width_ + 1 + loaded * (width_ - 1));
    auto* at = reinterpret_cast<float*>(
        context.partials->reserve(static_cast<size_t>(floats) * sizeof(float)));
    weight_ = at;
    zeros_ = at += width_ * channels_;
    loaded_ = at + channels_;
    std::fill_n(zeros_, channels_, 0.0f);
  }

  void run() const {
    const auto loaded = static_cast<int64_t>(walk_.loaded.size());
    const int64_t blocks = ceil_div(channels_, kTaskChannels);
    context_.threads->run(blocks + loaded, [&](int64_t i, int) {
      if (i < blocks) {
        turn_weights(i * kTaskChannels, std::min(channels_, (i + 1) * kTaskChannels));
      } else {
        load(i - blocks);
      }
    });
    const int64_t rows = step_.scan->segments.empty() ? 0 : step_.scan->segments.back().row_end;
    const int64_t row_blocks = ceil_div(rows, kTaskRows);
    context_.threads->run(row_blocks * blocks, [&](int64_t i, int) {
      const int64_t row = i / blocks * kTaskRows, channel = i % blocks * kTaskChannels;
      compute(row, std::min(rows, row + kTaskRows), channel,
              std::min(channels_, channel + kTaskChannels));
    });
    const std::vector<ScanWrite>& writes = walk_.writes;
    context_.threads->run(static_cast<int64_t>(writes.size()),
                          [&](int64_t i, int) { store(writes[static_cast<size_t>(i)]); });
  }

 private:
  StateCursor stored(int32_t state) const {
    return {step_, state, step_.state.conv_offset(args_.layer)};
  }
  void turn_weights(int64_t begin, int64_t end) const {
    for (int64_t tap = 0; tap < width_; ++tap)
      for (int64_t c = begin; c < end; ++c)
        weight_[tap * channels_ + c] = args_.weight[c * width_ + tap];
  }
  void load(int64_t n) const {
    stored(walk_.loaded[static_cast<size_t>(n)])
        .read(loaded_ + n * (width_ - 1) * channels_, (width_ - 1) * channels_);
  }

  // The inputs of a row, the oldest first; `width` of them.
  void inputs(int64_t row, const float** x) const {
    for (int64_t i = 0; i + 1 < width_; ++i) {
      const int32_t tap = walk_.taps[static_cast<size_t>(row * (width_ - 1) + i)];
      x[i] = tap >= 0                    ? args_.x + tap * args_.ld
             : tap == ScanWalk::kZeroTap ? zeros_
                                         : loaded_ + ScanWalk::loaded_index(tap) * channels_;
    }
    x[width_ - 1] = args_.x + row * args_.ld;
  }

  void compute(int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) const {
    const float* x[kMaxWidth];
    ConvKernel kernel;
    kernel.x = x;
    kernel.weight = weight_ + begin;
    kernel.ld_weight = channels_;
    kernel.width = width_;
    kernel.bias = args_.bias == nullptr ? nullptr : args_.bias + begin;
    kernel.silu = args_.silu;
    kernel.n = end - begin;
    for (int64_t row = row_begin; row < row_end; ++row) {
      inputs(row, x);
      for (int64_t i = 0; i < width_; ++i) x[i] += begin;
      kernel.out = args_.out + row * args_.ld_out + begin;
      context_.kernels->scan.conv(kernel);
      if (step_.state.scan_floats == 0) mark(row, kernel.out, kernel.n);
    }
  }

  // Inputs are stored as they are, and no scan looks at what becomes of them.
  void mark(int64_t row, const float* out, int64_t n) const {
    if (all_finite(out, static_cast<size_t>(n) * sizeof(float), KvType::kF32)) return;
    std::atomic_ref<int32_t> flag(not_finite_[static_cast<size_t>(row)]);
    flag.store(1, std::memory_order_relaxed);
  }

  void store(const ScanWrite& write) const {
    const float* x[kMaxWidth];
    inputs(write.row, x);
    StateCursor to = stored(write.state);
    for (int64_t i = 1; i < width_; ++i) to.write(x[i], channels_);
  }

  const CpuContext& context_;
  const StepArrays& step_;
  const ScanWalk& walk_;
  const ConvArgs& args_;
  std::vector<int32_t>& not_finite_;
  const int64_t width_;
  const int64_t channels_;
  float* weight_;  // [width, channels]
  float* zeros_;   // [channels]
  float* loaded_;  // [stored states that are read, width - 1, channels]
};

}  // namespace

void CpuStep::conv(const ConvArgs& args) {
  PREFIX_CHECK(arrays_.scan != nullptr && args.layer < arrays_.state.layers);
  Convolution(context_, arrays_, walk_, args, not_finite_).run();
}

}  // namespace prefix::ops
