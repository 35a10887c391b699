// Costs of requests before the model computes anything of them: a scheduler without a thread, over a
// tiny model.
#include <memory>
#include <string>

#include "../folder.h"
#include "cache/kv_memory.h"
#include "cost.h"
#include "engine/request_check.h"
#include "engine/schedule/scheduler.h"
#include "grown_tree.h"
#include "model/files/model_files.h"
#include "random_checkpoint.h"

namespace prefix::bench {
namespace {

struct TinyModel {
  TinyModel() : device(ops::make_cpu_device({ops::kBf16Types, "auto"})) {
    const std::string path = folder.path() + "/model";
    tools::CheckpointShape shape = tools::named_shape("tiny");
    shape.max_positions = 1 << 20;
    tools::write_checkpoint(path, shape);
    model = std::make_unique<Model>(open_model(path), *device, 1 << 20, nullptr);
  }

  const Folder folder;
  std::unique_ptr<ops::Device> device;
  std::unique_ptr<Model> model;
};

TinyModel& tiny() {
  static TinyModel model;
  return model;
}

struct Schedule {
  explicit Schedule(int32_t pages)
      : pool(pages), kv(*tiny().device, tiny().model->kv_layout(), pages) {}

  std::shared_ptr<Job> submit(std::vector<RequestSpec> requests) {
    auto job = std::make_shared<Job>(std::move(requests), [this] { return now; });
    scheduler.enqueue(job);
    return job;
  }
  // One runs and holds all pages, so that others wait.
  void fill() {
    submit({request(kPageTokens, pool.capacity() - 1)});
    scheduler.plan();
    step();
  }
  void step() {
    scheduler.execute();
    scheduler.complete();
  }
  static RequestSpec request(int tokens, int max_pages) {
    RequestSpec spec;
    spec.task = Task::kGenerate;
    spec.tokens.assign(static_cast<size_t>(tokens), 3);
    spec.sampling.max_tokens = max_pages * kPageTokens;
    spec.sampling.ignore_eos = true;
    return spec;
  }
  void wait_jobs(int n, int64_t deadline_ms = 0) {
    for (int i = 0; i < n; ++i) {
      RequestSpec spec = request(40, 4);
      spec.deadline_ms = deadline_ms > 0 ? deadline_ms + i : 0;
      waiting.push_back(submit({spec}));
    }
  }
  double plan() {
    const double seconds = timed([&] { scheduler.plan(); });
    step();
    return seconds;
  }

  Clock::time_point now = Clock::now();
  PagePool pool;
  KvMemory kv;
  Tree tree{pool};
  Scheduler scheduler{
      *tiny().model,         kv, pool, tree, SchedulerOptions{.row_budget = 512}, nullptr,
      [this] { return now; }};
  std::vector<std::shared_ptr<Job>> waiting;
};

double submit_jobs(int n) {
  Schedule s(100);
  s.fill();
  const double seconds = timed([&] { s.wait_jobs(n); });
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

double submit_one_batch(int n) {
  Schedule s(100);
  s.fill();
  std::vector<RequestSpec> requests(static_cast<size_t>(n), Schedule::request(40, 4));
  for (int i = 0; i < n; ++i) requests[static_cast<size_t>(i)].priority = i % 7;
  const double seconds = timed([&] { s.submit(std::move(requests)); });
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

// Each of a higher priority than n that wait.
double submit_higher(int n) {
  Schedule s(100);
  s.fill();
  s.wait_jobs(n);
  RequestSpec spec = Schedule::request(40, 4);
  spec.priority = 1;
  const double seconds = timed([&] { s.submit({spec}); });
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

double plan_beside(int n) {
  Schedule s(100);
  s.fill();
  s.wait_jobs(n);
  s.plan();
  const double seconds = s.plan();
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

double cancel_one(int n) {
  Schedule s(100);
  s.fill();
  s.wait_jobs(n);
  s.plan();
  s.waiting[static_cast<size_t>(n / 2)]->cancel();
  const double seconds = s.plan();
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

double miss_a_deadline(int n) {
  Schedule s(100);
  s.fill();
  s.wait_jobs(n, 1000);
  s.plan();
  s.now += std::chrono::milliseconds(1001);
  const double seconds = s.plan();
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

// A request of n choices behind 500 pages: what it costs to admit it.
double admit_choices(int n) {
  Schedule s(2 * n + 600);
  RequestSpec spec;
  spec.task = Task::kChoices;
  spec.tokens = GrownTree::path(1, 500);
  for (int32_t& token : spec.tokens) token %= 100;
  for (int i = 0; i < n; ++i) spec.choices.push_back({i % 100, i / 100 % 100, i / 10000});
  s.submit({spec});
  const double seconds = timed([&] { s.scheduler.plan(); });
  s.scheduler.abort_all(Code::kCancelled, "");
  return seconds;
}

double check_tokens(int n) {
  RequestSpec spec = Schedule::request(n, 1);
  const RequestLimits limits{1 << 20, 1 << 20, 0, 1024};
  return timed([&] { check_request(spec, tiny().model->config(), limits); });
}

}  // namespace

void add_engine_costs(std::vector<Cost>& costs) {
  costs.push_back({"check a request", "tokens", 100000, 1, check_tokens});
  costs.push_back({"submit jobs", "jobs of a request", 5000, 1, submit_jobs});
  costs.push_back({"submit a job", "requests of a job", 5000, 1, submit_one_batch});
  costs.push_back({"submit above others", "jobs that wait", 5000, 0, submit_higher});
  costs.push_back({"plan", "jobs that wait", 5000, 0, plan_beside});
  costs.push_back({"plan with one cancelled", "jobs that wait", 5000, 0, cancel_one});
  costs.push_back({"plan with a deadline missed", "jobs that wait", 5000, 0, miss_a_deadline});
  costs.push_back({"admit choices", "choices behind 500 pages", 250, 1, admit_choices});
}

}  // namespace prefix::bench
