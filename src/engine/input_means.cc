#include "engine/input_means.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/page.h"
#include "cache/kv_memory.h"
#include "engine/schedule/scheduler.h"
#include "model/architecture.h"
#include "model/packed_model.h"
#include "model/weights.h"

namespace prefix {
namespace {

constexpr int32_t kTokens = 32;

// Sees whether a load rounds a matrix itself.
class Rounds final : public LoadObserver {
 public:
  void matrix(const std::string&, ops::PackedWeights&,
              const std::vector<const Tensor*>& tensors) override {
    any_ |= std::ranges::none_of(tensors, [](const Tensor* t) { return PackedModel::has(*t); });
  }
  void used(const std::set<std::string>&) override {}
  bool any() const { return any_; }

 private:
  bool any_ = false;
};

bool rounds(const ModelFiles& files, const ops::NumericTypes& types) {
  const std::shared_ptr<const PackedModel> packed = PackedModel::of(*files.tensors);
  if (!packed) return types.int8 != 0;
  if ((types.int8 & ~packed->kinds()) == 0) return false;
  Rounds rounds;
  weight_shapes(files, find_architecture(files.config.architecture), types, &rounds);
  return rounds.any();
}

// The rows that each matrix is multiplied with, added up.
class Sums final : public LoadObserver, public ops::InputObserver {
 public:
  void matrix(const std::string& name, ops::PackedWeights& packed,
              const std::vector<const Tensor*>&) override {
    by_signs_[packed.signs] = {name, std::vector<int64_t>(static_cast<size_t>(packed.k))};
  }
  void used(const std::set<std::string>&) override {}

  // Panels of a matrix have its signs.
  void row(const ops::PackedWeights& w, const int8_t* numbers, float scale) override {
    if (!(scale > 0)) return;
    // Far more of a number than a row has, and far from the limit of a sum.
    constexpr float kMost = 1024;
    constexpr double kUnits = 0x1p30;
    const int64_t units = std::llround(kUnits * double{std::min(scale, kMost)});
    const std::lock_guard lock(mutex_);
    std::vector<int64_t>& sum = by_signs_.at(w.signs).sum;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += units * numbers[k];
  }

  InputMeans means() const {
    InputMeans means;
    for (const auto& [signs, one] : by_signs_)
      means.emplace(one.name, std::vector<float>(one.sum.begin(), one.sum.end()));
    return means;
  }

 private:
  struct Sum {
    std::string name;
    std::vector<int64_t> sum;  // [k]
  };
  std::mutex mutex_;
  std::unordered_map<const float*, Sum> by_signs_;
};

RequestSpec some_tokens(const ModelConfig& config, int32_t count) {
  RequestSpec spec;
  const bool scores = !config.bidirectional && config.missing_output.empty();
  spec.task = scores ? Task::kLogprobs : Task::kEmbed;
  spec.dense = false;
  for (int64_t i = 0; i < count; ++i)
    spec.tokens.push_back(static_cast<int32_t>((2 * i + 1) * config.vocab_size / (2 * count)));
  return spec;
}

void run(Model& model, int32_t threads, int32_t count) {
  const bool whole = model.config().bidirectional;
  const ops::KvLayout layout = model.kv_layout();
  // What a request of so many tokens takes: its pages, and two states.
  const int32_t most =
      pages_between(0, count) + 1 + 2 * model.state_layout().pages(layout.page_bytes());
  PagePool pages(most);
  KvMemory kv(model.device(), layout, most);
  Tree tree(pages, TreeOptions{.whole = whole});
  SchedulerOptions options;
  options.threads = threads;
  options.whole_texts = whole;
  Scheduler scheduler(model, kv, pages, tree, options, nullptr);
  // One that fails, because its numbers are not finite, has shown what it could.
  scheduler.enqueue(std::make_shared<Job>(std::vector{some_tokens(model.config(), count)}));
  while (!scheduler.idle()) {
    scheduler.plan();
    scheduler.execute();
    scheduler.complete();
  }
}

}  // namespace

InputMeans input_means(const ModelFiles& files, const ops::DeviceOptions& options,
                       const Model::Progress& progress) {
  if (!rounds(files, options.types)) return {};
  Sums sums;
  ops::DeviceOptions own = options;
  own.types = ops::kBf16Types;
  own.types.int8 = options.types.int8;
  own.types.kv = ops::KvType::kInt8;
  own.observer = &sums;
  const std::unique_ptr<ops::Device> device = ops::make_device(own);
  const int32_t count = std::min(kTokens, files.config.max_positions);
  Model model(files, *device, count, progress, {.observer = &sums});
  run(model, own.threads ? own.threads->count() : 1, count);
  return sums.means();
}

}  // namespace prefix
