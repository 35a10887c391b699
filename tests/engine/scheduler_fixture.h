// A scheduler over a tiny model without the engine's thread: the test makes every step, and says
// what time it is.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "cache/kv_memory.h"
#include "engine/schedule/scheduler.h"
#include "engine_support.h"
#include "model/files/model_files.h"
#include "support/manual_clock.h"

namespace prefix::testing_support {

using namespace std::chrono_literals;

struct SchedulerTest : testing::Test {
  SchedulerTest() { open(100, 2048); }

  // Memory for `pages` pages, steps of `rows` rows.
  void open(int32_t pages, int32_t rows) { open(testing_support::tiny_checkpoint(), pages, rows); }
  void open(const TinyCheckpoint& checkpoint, int32_t pages, int32_t rows, int32_t window = 0) {
    scheduler.reset();
    tree.reset();
    kv.reset();
    model.reset();
    device = ops::make_cpu_device({ops::kBf16Types, "auto"});
    model = std::make_unique<Model>(open_model(checkpoint.path()), *device, 4096, nullptr);
    pool = std::make_unique<PagePool>(pages);
    kv = std::make_unique<KvMemory>(*device, model->kv_layout(), pages);
    tree = std::make_unique<Tree>(*pool, TreeOptions{.window = window});
    scheduler = std::make_unique<Scheduler>(
        *model, *kv, *pool, *tree, SchedulerOptions{.row_budget = rows}, nullptr, clock.now());
  }

  std::shared_ptr<Job> submit(std::vector<RequestSpec> requests) {
    auto job = std::make_shared<Job>(std::move(requests), clock.now());
    scheduler->enqueue(job);
    return job;
  }
  void step() {
    scheduler->plan();
    scheduler->execute();
    scheduler->complete();
  }
  void finish_all() {
    for (int i = 0; !scheduler->idle(); ++i) {
      ASSERT_LT(i, 10000) << "the scheduler makes no progress";
      step();
    }
  }
  // What a generation has so far.
  static size_t generated(Job& job, size_t i = 0) { return job.edit_result(i).tokens.size(); }

  void check() const {
    tree->check();
    scheduler->check();
  }
  // n tokens that share nothing with those of another number.
  static std::vector<int32_t> text(int32_t number, size_t n) {
    EXPECT_LT(number, 131) << "it is no token of the model";
    std::vector<int32_t> tokens(n, 3);
    tokens[0] = number;
    return tokens;
  }
  static RequestSpec generate(std::vector<int32_t> tokens, int32_t max_tokens) {
    RequestSpec spec;
    spec.task = Task::kGenerate;
    spec.tokens = std::move(tokens);
    spec.sampling.max_tokens = max_tokens;
    spec.sampling.ignore_eos = true;
    return spec;
  }

  ManualClock clock;
  std::unique_ptr<ops::Device> device;
  std::unique_ptr<Model> model;
  std::unique_ptr<PagePool> pool;
  std::unique_ptr<KvMemory> kv;
  std::unique_ptr<Tree> tree;
  std::unique_ptr<Scheduler> scheduler;  // the last member: it uses the others
};

}  // namespace prefix::testing_support
