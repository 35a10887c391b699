// Whole prefills, and decoding behind them, by models with random weights.
#include "engine/engine.h"

#include <chrono>
#include <random>
#include <vector>

#include "../folder.h"
#include "../line.h"
#include "base/status.h"
#include "benches.h"
#include "ops/devices.h"
#include "random_checkpoint.h"
#include "timing.h"

namespace prefix::bench {
namespace {

// The first round meets every shape for the first time; the others count.
constexpr int kRounds = 4;
constexpr int kDecodeRounds = 2;

double milliseconds(Engine& engine, std::vector<RequestSpec> batch) {
  const auto start = std::chrono::steady_clock::now();
  const auto job = engine.submit(std::move(batch));
  job->wait(-1);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  for (size_t i = 0; i < job->count(); ++i)
    if (job->result(i).status != Code::kOk) fail(job->result(i).status, job->result(i).message);
  return time.count();
}

// Sequences behind one prefix, of tokens that no round before had.
class Prompts {
 public:
  Prompts(int vocab, const EngineCase& c) : vocab_(vocab), case_(c) {}

  std::vector<RequestSpec> scores() {
    std::vector<RequestSpec> batch = texts();
    for (RequestSpec& spec : batch) {
      spec.task = Task::kLogits;
      spec.logit_ids = {1};
    }
    return batch;
  }
  std::vector<RequestSpec> answers(int tokens) {
    std::vector<RequestSpec> batch = texts();
    for (RequestSpec& spec : batch) {
      spec.sampling.max_tokens = tokens;
      spec.sampling.ignore_eos = true;
    }
    return batch;
  }

 private:
  std::vector<RequestSpec> texts() {
    const auto token = [&] {
      return static_cast<int32_t>(random_() % static_cast<unsigned>(vocab_));
    };
    std::vector<int32_t> shared(static_cast<size_t>(case_.prefix));
    for (int32_t& t : shared) t = token();
    std::vector<RequestSpec> batch(static_cast<size_t>(case_.sequences));
    for (RequestSpec& spec : batch) {
      spec.tokens = shared;
      for (int i = 0; i < case_.own; ++i) spec.tokens.push_back(token());
    }
    return batch;
  }

  std::mt19937 random_{1};
  const int vocab_;
  const EngineCase& case_;
};

double prefill_ms(Engine& engine, Prompts& prompts) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const double ms = milliseconds(engine, prompts.scores());
    if (round > 0) rounds.push_back(ms);
  }
  return median(rounds);
}

// One more token for each sequence: the prefill is in both of what is subtracted.
double step_ms(Engine& engine, Prompts& prompts, int steps) {
  double ms = 0;
  for (int round = 0; round < kDecodeRounds; ++round) {
    const double first = milliseconds(engine, prompts.answers(1));
    ms = (milliseconds(engine, prompts.answers(1 + steps)) - first) / steps;
  }
  return ms;
}

}  // namespace

void bench_engine(const std::string& shape, const std::string& device, const EngineCase& c) {
  tools::CheckpointShape model = tools::named_shape(shape);
  model.repeat = true;
  const Folder folder;
  const std::string path = folder.path() + "/model";
  tools::write_checkpoint(path, model);
  double prefill[2] = {}, step[2] = {};
  for (const bool sharing : {true, false}) {
    Options options;
    options.set("device", device);
    options.set("rows", "8192");
    options.set("cache", "false");
    options.set("sharing", sharing ? "true" : "false");
    const auto engine = Engine::create(path, options, nullptr);
    Prompts prompts(model.vocab, c);
    prefill[sharing ? 0 : 1] = prefill_ms(*engine, prompts);
    step[sharing ? 0 : 1] = step_ms(*engine, prompts, c.steps);
  }
  const std::string machine = device_name(*ops::make_device({device, ops::kBf16Types}));
  const auto print = [&](const char* bench, const double(&ms)[2], const char* unit) {
    Line line(bench, machine);
    line.field("model", shape).field("shape", cat(c.sequences, ",", c.prefix, ",", c.own));
    line.field(cat("shared_", unit), ms[0]).field(cat("unshared_", unit), ms[1]);
    line.field("speedup", ms[1] / ms[0]).print();
  };
  print("engine", prefill, "ms");
  print("decode", step, "step_ms");
}

}  // namespace prefix::bench
