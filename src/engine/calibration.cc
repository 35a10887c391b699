#include "engine/calibration.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "cache/kv_memory.h"
#include "engine/schedule/scheduler.h"
#include "model/architecture.h"
#include "model/load/packed_model.h"
#include "model/load/weights.h"

namespace prefix {
namespace {

constexpr auto kTokens = static_cast<int32_t>(ops::kCalibrationRows);

// By the load itself: no file has it in whole numbers.
bool is_rounded(const std::vector<const Tensor*>& tensors) {
  return std::ranges::none_of(tensors, [](const Tensor* t) { return PackedModel::has(*t); });
}

// Sees whether a load rounds a matrix.
class Rounds final : public LoadObserver {
 public:
  void matrix(const std::string&, ops::PackedWeights&,
              const std::vector<const Tensor*>& tensors) override {
    any_ |= is_rounded(tensors);
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

// The rows that each matrix is multiplied with which is rounded.
class Rows final : public LoadObserver, public ops::InputObserver {
 public:
  void matrix(const std::string& name, ops::PackedWeights& packed,
              const std::vector<const Tensor*>& tensors) override {
    if (is_rounded(tensors)) by_signs_[packed.signs].name = name;
  }
  void used(const std::set<std::string>&) override {}

  // Panels of a matrix have its signs.
  void row(const ops::PackedWeights& w, const int8_t* numbers, float scale) override {
    if (!(scale > 0)) return;
    const std::lock_guard lock(mutex_);
    const auto found = by_signs_.find(w.signs);
    if (found == by_signs_.end()) return;
    ops::CalibrationRows& rows = found->second.rows;
    if (rows.scales.empty()) rows.numbers.reserve(static_cast<size_t>(kTokens * w.k));
    rows.scales.push_back(scale);
    rows.numbers.insert(rows.numbers.end(), numbers, numbers + w.k);
  }

  Calibration take() {
    Calibration calibration;
    for (auto& [signs, matrix] : by_signs_) {
      calibration[matrix.name] = in_order(matrix.rows);
      matrix.rows = {};
    }
    return calibration;
  }

 private:
  struct Matrix {
    std::string name;
    ops::CalibrationRows rows;
  };

  // An order of their own: they came in that of threads.
  static ops::CalibrationRows in_order(const ops::CalibrationRows& rows) {
    const size_t count = rows.scales.size(), k = count == 0 ? 0 : rows.numbers.size() / count;
    std::vector<std::pair<float, std::span<const int8_t>>> all;
    for (size_t r = 0; r < count; ++r)
      all.push_back({rows.scales[r], std::span(rows.numbers).subspan(r * k, k)});
    std::ranges::sort(all, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first
                                : std::ranges::lexicographical_compare(b.second, a.second);
    });
    ops::CalibrationRows out;
    out.numbers.reserve(rows.numbers.size());
    for (const auto& [scale, numbers] : all) {
      out.scales.push_back(scale);
      out.numbers.insert(out.numbers.end(), numbers.begin(), numbers.end());
    }
    return out;
  }

  std::mutex mutex_;
  std::unordered_map<const float*, Matrix> by_signs_;
};

RequestSpec some_tokens(const ModelConfig& config, int32_t count) {
  RequestSpec spec;
  const bool scores = !config.bidirectional && config.missing_output.empty();
  spec.task = scores ? Task::kLogprobs : Task::kEmbed;
  spec.dense = false;
  constexpr int64_t kHalvings = 8;
  for (int64_t i = 0; i < count; ++i)
    spec.tokens.push_back(
        static_cast<int32_t>((2 * i + 1) * config.vocab_size / (2 * count) >> i % kHalvings));
  if (scores) spec.checkpoint = {count};  // so that the last one is computed, too
  return spec;
}

void run(Model& model, int32_t threads, int32_t count, const Model::Progress& progress) {
  const bool whole = model.config().bidirectional;
  const ops::KvLayout layout = model.kv_layout();
  // What a request of so many tokens takes: its pages, and two states.
  const int32_t most = pages_between(0, count) + 1 + 2 * model.state_pages();
  PagePool pages(most);
  KvMemory kv(model.device(), layout, most);
  Tree tree(pages, TreeOptions{.whole = whole});
  SchedulerOptions options;
  options.threads = threads;
  options.whole_texts = whole;
  const auto job = std::make_shared<Job>(std::vector{some_tokens(model.config(), count)});
  int64_t asked = 0;
  options.between_layers = [&] {
    const auto layers = static_cast<double>(model.config().layers);
    if (progress && !progress(std::min(1.0, static_cast<double>(++asked) / layers))) job->cancel();
  };
  Scheduler scheduler(model, kv, pages, tree, options, nullptr);
  scheduler.enqueue(job);
  for (int steps = 0; !scheduler.idle(); ++steps) {
    PREFIX_CHECK(steps < kTokens);  // there is memory for all of it at once
    scheduler.plan();
    scheduler.execute();
    scheduler.complete();
  }
  // One whose numbers are not finite has shown what it could.
  const RequestResult& result = job->result(0);
  if (result.status == Code::kCancelled)
    fail(Code::kCancelled, "the load was ended before weights were rounded");
  if (result.status != Code::kOk && result.status != Code::kNotFinite)
    fail(result.status, "the inputs by which weights are rounded: ", result.message);
}

}  // namespace

Calibration calibrate(const ModelFiles& files, const ops::DeviceOptions& options,
                      const Model::Progress& progress) {
  if (!rounds(files, options.types)) return {};
  Rows rows;
  ops::DeviceOptions own = options;
  own.types = ops::kBf16Types;
  own.types.int8 = options.types.int8;
  own.types.kv = ops::KvType::kInt8;
  own.observer = &rows;
  const std::unique_ptr<ops::Device> device = ops::make_device(own);
  const int32_t count = std::min(kTokens, files.config.max_positions);
  double begin = 0, end = 0.9;
  const Model::Progress part = [&](double done) {
    return !progress || progress(begin + (end - begin) * done);
  };
  Model model(files, *device, count, part, {.observer = &rows});
  begin = std::exchange(end, 1);
  run(model, own.threads ? own.threads->count() : 1, count, part);
  return rows.take();
}

}  // namespace prefix
