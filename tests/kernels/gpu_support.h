// Devices for tests of the GPU backend: the emulator everywhere, and a real GPU where there is one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/emulator.h"
#include "ops/attention_checks.h"
#include "ops/devices.h"
#include "ops/op_gpu.h"
#include "ops/row_operations.h"
#include "support/dtype.h"

namespace prefix::ops::testing {

struct Backend {
  bool emulated;
  DType type;
};

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return std::string(info.param.emulated ? "emulated" : "cuda") +
         (info.param.type == DType::kF32 ? "_f32" : "_bf16");
}

inline constexpr Backend kBackends[] = {
    {true, DType::kBf16}, {true, DType::kF32}, {false, DType::kBf16}, {false, DType::kF32}};
inline constexpr Backend kBf16Backends[] = {{true, DType::kBf16}, {false, DType::kBf16}};

// Kernels of attention that a test insists on, small steps and wide items apart.
struct Attention {
  CudaAttention small = CudaAttention::kMma, wide = CudaAttention::kMma;
};
inline constexpr Attention kClusters = {CudaAttention::kHopper, CudaAttention::kMma};
inline constexpr Attention kWarpgroups = {CudaAttention::kMma, CudaAttention::kHopper};

inline std::unique_ptr<GpuDevice> emulated_device(DType type, bool invariant = false,
                                                  int processors = 4, uint64_t seed = 1,
                                                  const Attention& attention = {}) {
  return std::make_unique<GpuDevice>(
      std::make_unique<gpu::EmulatedRuntime>(processors, seed),
      GpuOptions{types_of(type), nullptr, invariant, true, attention.small, attention.wide});
}

inline std::unique_ptr<GpuDevice> real_device(DType type, bool invariant = false,
                                              const Attention& attention = {}) {
  auto device = make_device(
      {"cuda", types_of(type), "auto", nullptr, invariant, true, attention.small, attention.wide});
  return std::unique_ptr<GpuDevice>(static_cast<GpuDevice*>(device.release()));
}

// For the tests that all devices have.
inline std::vector<TestedDevice> tested(std::span<const Backend> backends) {
  std::vector<TestedDevice> all;
  for (const auto& [emulated, type] : backends)
    all.push_back(
        {emulated ? "emulated" : "cuda", type, [emulated, type]() -> std::unique_ptr<Device> {
           if (emulated) return emulated_device(type);
           return real_device(type);
         }});
  return all;
}

// Why there is no GPU here; empty when there is one.
inline std::string why_no_gpu(const Attention& attention) {
  try {
    real_device(DType::kBf16, false, attention);
    return {};
  } catch (const Error& e) {
    return e.message();
  }
}
inline const std::string& no_gpu() {
  static const std::string why = why_no_gpu({});
  return why;
}

// On the emulator, and on a GPU that has these kernels.
class GpuTest : public ::testing::TestWithParam<Backend> {
 protected:
  explicit GpuTest(const Attention& attention = {}) : attention_(attention) {}
  void SetUp() override {
    try {
      device_ = make();
    } catch (const Error& e) {
      if (emulated()) throw;
      GTEST_SKIP() << e.message();
    }
  }
  // The emulator's number of processors decides how attention is cut into items.
  std::unique_ptr<GpuDevice> make(int processors = 4, uint64_t seed = 1,
                                  bool invariant = false) const {
    return emulated() ? emulated_device(type(), invariant, processors, seed, attention_)
                      : real_device(type(), invariant, attention_);
  }
  bool emulated() const { return GetParam().emulated; }
  DType type() const { return GetParam().type; }
  bool f32() const { return type() == DType::kF32; }
  double bound() const { return f32() ? 1e-5 : 3e-3; }

  const Attention attention_;
  std::unique_ptr<GpuDevice> device_;
};

// Without nodes yet.
inline Tree gpu_tree(int32_t heads, int32_t kv_heads, int32_t head_dim, Rng& rng,
                     DType type = DType::kBf16) {
  Tree tree;
  tree.type = type;
  tree.heads = heads;
  tree.kv_heads = kv_heads;
  tree.head_dim = head_dim;
  tree.seed = rng();
  tree.gpu_pages = true;
  return tree;
}

// Rows of a random tree that is grown here, in tiles of any size.
inline Step any_step(Tree& tree, Rng& rng) {
  grow(tree, rng, static_cast<int>(pick(rng, 1, 20)), static_cast<int>(pick(rng, 1, 400)));
  const std::vector<RowRef> rows = some_rows(tree, pick(rng, 1, 150), rng);
  const auto tile_rows = static_cast<int32_t>(pick(rng, 1, 80));
  return make_step(tree, rows, {.tile_rows = tile_rows, .split_runs = true}, rng);
}

// The last token of each leaf of a star.
inline std::vector<RowRef> last_rows(const Tree& tree) {
  std::vector<RowRef> rows;
  for (int32_t n = 1; n < static_cast<int32_t>(tree.nodes.size()); ++n)
    rows.push_back({n, tree.nodes[n].end - 1});
  return rows;
}

// Tiles as the device asks for, behind the last token what was never written.
inline Step gpu_step(const Tree& tree, const std::vector<RowRef>& rows, Rng& rng,
                     bool nan_keys = true, Sharing sharing = Sharing::kTree) {
  const int32_t tile_rows = std::max(1, gpu::kPlanTileRows * tree.kv_heads / tree.heads);
  return make_step(tree, rows,
                   {.sharing = sharing,
                    .tile_rows = tile_rows,
                    .ragged = false,
                    .cut_tail = true,
                    .nan_keys = nan_keys},
                   rng);
}

// Rows of a tree, and their step.
struct Scene {
  Tree tree;
  std::vector<RowRef> rows;
  Step step;

  Scene() = default;
  Scene(Tree of, std::vector<RowRef> chosen, Rng& rng, bool nan_keys = true,
        Sharing sharing = Sharing::kTree)
      : tree(std::move(of)),
        rows(std::move(chosen)),
        step(gpu_step(tree, rows, rng, nan_keys, sharing)) {}
  // The last token of each of `answers` leaves below a context.
  static Scene of_answers(Tree tree, int context, int answers, int own, Rng& rng,
                          bool nan_keys = true, Sharing sharing = Sharing::kTree) {
    grow_star(tree, context, answers, own);
    return Scene(tree, last_rows(tree), rng, nan_keys, sharing);
  }
  double error(const std::vector<float>& got) const {
    return relative_l2(got, attention_f64(tree, rows));
  }
};

inline std::vector<float> run_attention(Device& device, const Scene& scene) {
  return run_attention(device, scene.tree, scene.step);
}

// What a device says whose emulator leaves something out, empty if nothing.
inline std::string run_with(const gpu::Sabotage& sabotage, int processors, uint64_t seed,
                            const Attention& attention, const Scene& scene) {
  auto runtime = std::make_unique<gpu::EmulatedRuntime>(processors, seed);
  runtime->sabotage(sabotage);
  try {
    GpuDevice device(std::move(runtime),
                     {kBf16Types, nullptr, false, true, attention.small, attention.wide});
    run_attention(device, scene);
  } catch (const Error& e) {
    return e.message();
  }
  return {};
}

// While it lives, device=cuda means the emulator.
class EmulatedCuda {
 public:
  EmulatedCuda() {
    replace_gpu_runtime([this](int index, bool) {
      auto made = std::make_unique<gpu::EmulatedRuntime>(processors, index + 1);
      last_ = made.get();
      return made;
    });
  }
  ~EmulatedCuda() { replace_gpu_runtime({}); }
  EmulatedCuda(const EmulatedCuda&) = delete;
  EmulatedCuda& operator=(const EmulatedCuda&) = delete;

  // Of the device that was opened last.
  gpu::EmulatedRuntime& runtime() { return *last_; }
  int processors = 4;

 private:
  gpu::EmulatedRuntime* last_ = nullptr;
};

}  // namespace prefix::ops::testing
