// Devices for tests of the GPU backend: the emulator everywhere, and a real GPU where there is one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/emulator.h"
#include "ops/attention_reference.h"
#include "ops/devices.h"
#include "ops/op_gpu.h"
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

// A poisoned array on the device, written and read whole.
class DeviceArray {
 public:
  DeviceArray(Device& device, size_t bytes)  // NaN as f32 and as bf16
      : DeviceArray(device, std::vector<std::byte>(bytes, std::byte{0xff})) {}
  template <typename T>
  DeviceArray(Device& device, const std::vector<T>& values)
      : device_(device), bytes_(values.size() * sizeof(T)), data_(device.allocate(bytes_)) {
    device_.upload(data_, values.data(), bytes_);
  }
  ~DeviceArray() { device_.release(data_, bytes_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(bytes_);
    device_.download(out.data(), data_, bytes_);
    return out;
  }
  // As elements of a type, widened.
  std::vector<float> values(DType type) const {
    const std::vector<std::byte> raw = bytes();
    std::vector<float> out(bytes_ / dtype_bytes(type));
    for (size_t i = 0; i < out.size(); ++i) out[i] = get(raw.data(), static_cast<int64_t>(i), type);
    return out;
  }

 private:
  Device& device_;
  size_t bytes_;
  std::byte* data_;
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

// So many rows of all nodes, chosen at random.
inline std::vector<RowRef> some_rows(const Tree& tree, size_t count, Rng& rng) {
  std::vector<RowRef> rows;
  for (int32_t n = 0; n < static_cast<int32_t>(tree.nodes.size()); ++n)
    for (int32_t p = tree.nodes[n].begin; p < tree.nodes[n].end; ++p) rows.push_back({n, p});
  std::shuffle(rows.begin(), rows.end(), rng);
  if (rows.size() > count) rows.resize(count);
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Rows of a random tree that is grown here, in tiles of any size.
inline Step any_step(Tree& tree, Rng& rng) {
  grow(tree, rng, static_cast<int>(pick(rng, 1, 20)), static_cast<int>(pick(rng, 1, 400)));
  const std::vector<RowRef> rows = some_rows(tree, pick(rng, 1, 150), rng);
  StepOptions options;
  options.tile_rows = static_cast<int32_t>(pick(rng, 1, 80));
  options.split_runs = true;
  return make_step(tree, rows, options, rng);
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
  StepOptions options;
  options.tile_rows = std::max(1, gpu::kPlanTileRows * tree.kv_heads / tree.heads);
  options.ragged = false;
  options.cut_tail = true;
  options.nan_keys = nan_keys;
  options.sharing = sharing;
  return make_step(tree, rows, options, rng);
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

// out[rows, heads * head_dim] of a step of attention_reference.h.
inline std::vector<float> run_on_device(Device& device, const Tree& tree, const Step& step) {
  const int64_t width = int64_t{tree.heads} * tree.head_dim;
  const int64_t ld = device.act_ld(width);
  const auto rows = static_cast<int64_t>(step.rows.size());
  const size_t act_bytes = static_cast<size_t>(rows * ld) * device.act_bytes();
  std::vector<std::byte> q(act_bytes, std::byte{0xff});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i)
      put(q.data(), r * ld + i, act_type(device),
          tree.element(Kind::kQuery, step.rows[r].node, step.rows[r].position, i));
  const DeviceArray q_device(device, q), out(device, act_bytes), pool(device, step.pool);
  AttentionArgs args;
  args.q = {q_device.data(), ld};
  args.out = {out.data(), ld};
  args.scale = tree.scale();
  const std::unique_ptr<ops::Step> run = device.begin_step(arrays_of(tree, step, pool.data()));
  run->attention(args);
  run->end();
  const std::vector<float> all = out.values(act_type(device));
  std::vector<float> result;
  for (int64_t r = 0; r < rows; ++r)
    result.insert(result.end(), all.begin() + r * ld, all.begin() + r * ld + width);
  return result;
}

inline std::vector<float> run_on_device(Device& device, const Scene& scene) {
  return run_on_device(device, scene.tree, scene.step);
}

// What a device says whose emulator leaves something out, empty if nothing.
inline std::string run_with(const gpu::Sabotage& sabotage, int processors, uint64_t seed,
                            const Attention& attention, const Scene& scene) {
  auto runtime = std::make_unique<gpu::EmulatedRuntime>(processors, seed);
  runtime->sabotage(sabotage);
  try {
    GpuDevice device(std::move(runtime),
                     {kBf16Types, nullptr, false, true, attention.small, attention.wide});
    run_on_device(device, scene);
  } catch (const Error& e) {
    return e.message();
  }
  return {};
}

// Scores of all sizes, by attend(scene).
template <class Attend>
void expect_sharp_scores_stay_finite(DType type, double bound, Rng& rng, const Attend& attend) {
  for (const float scale : {0.0f, 100.0f, 3000.0f}) {
    Tree tree = gpu_tree(2, 1, 64, rng, type);
    tree.query_scale = scale;
    grow(tree, rng, 6, 120);
    const Scene scene(tree, some_rows(tree, 40, rng), rng, false);
    const std::vector<float> got = attend(scene);
    for (const float value : got) ASSERT_TRUE(std::isfinite(value)) << "scale " << scale;
    EXPECT_LE(scene.error(got), scale > 100 ? 1e-2 : 5 * bound);
  }
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
