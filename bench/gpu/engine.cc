// Whole prefills by models with random weights.
#include "engine/engine.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

#include "base/status.h"
#include "benches.h"
#include "random_checkpoint.h"
#include "timing.h"

namespace prefix::bench {
namespace {

// The first round meets every shape for the first time; the others count.
constexpr int kRounds = 4;

class TemporaryModel {
 public:
  explicit TemporaryModel(const tools::CheckpointShape& shape, const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("prefix-gpu-bench-" + name + "-" + std::to_string(getpid()))) {
    try {
      tools::write_checkpoint(path_.string(), shape);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~TemporaryModel() { remove(); }
  TemporaryModel(const TemporaryModel&) = delete;
  TemporaryModel& operator=(const TemporaryModel&) = delete;
  std::string path() const { return path_.string(); }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path path_;
};

}  // namespace

void bench_engine(const std::string& shape, const std::string& device, int sequences, int prefix,
                  int own) {
  tools::CheckpointShape model = tools::named_shape(shape);
  model.repeat = true;
  const TemporaryModel folder(model, shape);
  double ms[2] = {};
  for (const bool sharing : {true, false}) {
    Options options;
    options.set("device", device);
    options.set("rows", "8192");
    options.set("cache", "false");
    options.set("sharing", sharing ? "true" : "false");
    const auto engine = Engine::create(folder.path(), options, nullptr);
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      std::mt19937 random(static_cast<unsigned>(round) + 1);
      const auto token = [&] {
        return static_cast<int32_t>(random() % static_cast<unsigned>(model.vocab));
      };
      std::vector<int32_t> shared(static_cast<size_t>(prefix));
      for (int32_t& t : shared) t = token();
      std::vector<RequestSpec> batch(static_cast<size_t>(sequences));
      for (RequestSpec& spec : batch) {
        spec.task = Task::kLogits;
        spec.tokens = shared;
        for (int i = 0; i < own; ++i) spec.tokens.push_back(token());
        spec.logit_ids = {1};
      }
      const auto start = std::chrono::steady_clock::now();
      const auto job = engine->submit(std::move(batch));
      job->wait(-1);
      const std::chrono::duration<double, std::milli> time =
          std::chrono::steady_clock::now() - start;
      for (size_t i = 0; i < job->count(); ++i)
        if (job->result(i).status != Code::kOk) fail(job->result(i).status, job->result(i).message);
      if (round > 0) rounds.push_back(time.count());
    }
    ms[sharing ? 0 : 1] = median(rounds);
  }
  std::printf(
      "{\"bench\": \"engine\", \"model\": \"%s\", \"shape\": \"%d,%d,%d\", \"shared_ms\": %.1f, "
      "\"unshared_ms\": %.1f, \"speedup\": %.2f}\n",
      shape.c_str(), sequences, prefix, own, ms[0], ms[1], ms[1] / ms[0]);
  std::fflush(stdout);
}

}  // namespace prefix::bench
