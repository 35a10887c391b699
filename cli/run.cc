// prefix run: requests in, results out.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"
#include "files.h"
#include "prepare.h"
#include "progress.h"
#include "requests.h"
#include "results.h"
#include "stop.h"
#include "text.h"
#include "text_task.h"

namespace prefix_cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Totals {
  int64_t requests = 0;
  int64_t failed = 0;
  double load_seconds = 0;
  double run_seconds = 0;
};

// One batch: what was asked, where each request is in the job, and what came back.
class BatchRun {
 public:
  BatchRun(Engine& engine, LazyText& text, std::vector<Request> requests)
      : engine_(engine), text_(text), requests_(std::move(requests)), results_(requests_.size()) {}

  void run(Progress& progress) {
    Batch batch(engine_);
    for (size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i].task != Task::kText) add_request(batch, i);
    if (!jobs_index_.empty()) run_job(batch, progress);
    for (size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i].task == Task::kText) run_task(i, progress);
  }

  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<Result>& results() const { return results_; }

 private:
  struct Watch {
    StopSearch search;
    std::vector<float> logprobs;
    bool wants_logprobs = false;
    bool lost = false;  // events, so that it is searched when all tokens are there
  };

  void run_job(const Batch& batch, Progress& progress) {
    const Job job = engine_.submit(batch);
    searches_.size() ? follow(job, progress) : wait(job, progress);
    for (size_t j = 0; j < jobs_index_.size(); ++j) collect(job, j);
  }

  // A task is a batch of its own.
  void run_task(size_t i, Progress& progress) {
    const Request& request = requests_[i];
    Result& result = results_[i];
    try {
      const auto show = [&](int64_t done, int64_t all) { progress.show(done, all); };
      const TextTaskResult found =
          text_.need(request.line)
              .run(engine_.get(), *request.text_task, progress.interval_ms(), show);
      result.task_fields = payload(*request.text_task, found);
      result.some_failed = !found.failed.empty();
      result.usage = found.usage;
    } catch (const prefix::Error& e) {
      refuse(i, e.name(), e.what());
    } catch (const Failure& e) {
      refuse(i, prefix_status_name(PREFIX_ERR_INVALID_ARGUMENT), e.what());
    }
  }

  // An option of the request; empty where it has none.
  static std::string value_of(const Request& request, std::string_view name) {
    for (const auto& [key, value] : request.options)
      if (key == name) return value;
    return {};
  }

  void add_request(Batch& batch, size_t i) {
    const Request& request = requests_[i];
    try {
      if (!request.error.empty()) fail(request.error);
      const Prepared prepared = prepare(request, text_, engine_.info().vocabulary);
      add(batch, request, prepared);
      choice_sizes_.emplace_back();
      for (const std::vector<int32_t>& choice : prepared.choices)
        choice_sizes_.back().push_back(choice.size());
    } catch (const prefix::Error& e) {
      refuse(i, e.name(), e.what());
      return;
    } catch (const Failure& e) {
      refuse(i, prefix_status_name(PREFIX_ERR_INVALID_ARGUMENT), e.what());
      return;
    }
    if (request.task == Task::kGenerate && !request.stop.empty())
      searches_.emplace(jobs_index_.size(),
                        Watch{.search = StopSearch(text_.need(), request.stop),
                              .wants_logprobs = value_of(request, "logprobs") == "true"});
    jobs_index_.push_back(i);
  }

  void refuse(size_t i, const std::string& status, const std::string& message) {
    results_[i].status = status;
    results_[i].message = message;
  }

  static std::chrono::milliseconds interval(const Progress& progress) {
    return std::chrono::milliseconds(progress.interval_ms());
  }

  void wait(const Job& job, Progress& progress) {
    while (!job.wait(interval(progress)))
      progress.show(static_cast<int64_t>(job.finished_count()),
                    static_cast<int64_t>(jobs_index_.size()));
  }

  // As wait(), and cancels a generation when its stop string is complete.
  void follow(const Job& job, Progress& progress) {
    while (true) {
      // Before the look for an event: when there is none then, there will be none.
      const bool is_done = job.wait(std::chrono::milliseconds(0));
      const std::optional<prefix_event> event = job.next_event(interval(progress));
      if (!event) {
        if (is_done) return;
        progress.show(static_cast<int64_t>(job.finished_count()),
                      static_cast<int64_t>(jobs_index_.size()));
        continue;
      }
      if (event->kind == PREFIX_EVENT_LOST)
        for (auto& [index, watch] : searches_) watch.lost = !watch.search.found();
      const auto it = searches_.find(static_cast<size_t>(event->request));
      if (it == searches_.end()) continue;
      Watch& watch = it->second;
      if (event->kind != PREFIX_EVENT_TOKEN || watch.lost || watch.search.found()) continue;
      watch.logprobs.push_back(event->logprob);
      try {
        if (watch.search.push(event->token)) job.cancel_request(it->first);
      } catch (const prefix::Error&) {
        searches_.erase(it);  // a token that is no text: the result will say so
      }
    }
  }

  void collect(const Job& job, size_t j) {
    const Request& request = requests_[jobs_index_[j]];
    Result& result = results_[jobs_index_[j]];
    const auto top =
        static_cast<size_t>(std::strtoull(value_of(request, "top_logprobs").c_str(), nullptr, 10));
    result = result_of(job, j, choice_sizes_[j], top);
    add_texts(result);
    if (request.task != Task::kGenerate) return;
    const auto it = searches_.find(j);
    if (it != searches_.end() && result.ok()) {
      if (it->second.lost) search(request, result, it->second);
      finish(it->second);
    }
    if (it != searches_.end() && it->second.search.found()) {
      cut(result, it->second);
    } else if (result.ok()) {
      if (Text* text = text_.get()) decode(*text, result);
    }
  }

  // In all tokens, where events of them were lost.
  void search(const Request& request, Result& result, Watch& watch) {
    try {
      watch.search = StopSearch(text_.need(), request.stop);
      for (const int32_t token : result.tokens)
        if (watch.search.push(token)) break;
      watch.logprobs = result.token_logprobs;
    } catch (const prefix::Error&) {  // decode() will say so
    }
  }

  static void finish(Watch& watch) {
    try {
      watch.search.finish();
    } catch (const prefix::Error&) {  // decode() will say so
    }
  }

  void add_texts(Result& result) {
    Text* const text = result.top.empty() ? nullptr : text_.get();
    if (!text) return;
    for (std::vector<TopToken>& place : result.top)
      for (TopToken& one : place) one.text = text->token_text(one.token);
  }

  // The vocabulary of a model may be larger than that of its tokenizer.
  static void decode(Text& text, Result& result) {
    try {
      result.text = text.decode(result.tokens);
    } catch (const prefix::Error& e) {
      result.status = e.name();
      result.message = e.what();
    }
  }

  // The engine may have made a few more tokens before it saw the cancellation. They are cut, so
  // that a result does not depend on timing.
  static void cut(Result& result, const Watch& watch) {
    result.status = "ok";
    result.message.clear();
    result.finish = "stop";
    result.tokens.resize(std::min(result.tokens.size(), watch.search.tokens()));
    result.top.resize(std::min(result.top.size(), result.tokens.size()));
    // The library keeps none for a cancelled request; the events had them.
    if (watch.wants_logprobs) {
      result.token_logprobs = watch.logprobs;
      result.token_logprobs.resize(std::min(watch.logprobs.size(), result.tokens.size()));
    }
    result.usage.generated = static_cast<int64_t>(result.tokens.size());
    result.text = watch.search.text();
  }

  Engine& engine_;
  LazyText& text_;
  std::vector<Request> requests_;
  std::vector<Result> results_;
  // By job index: the request, and the tokens of each of its choices.
  std::vector<size_t> jobs_index_;
  std::vector<std::vector<size_t>> choice_sizes_;
  std::map<size_t, Watch> searches_;  // by job index
};

// All requests form one batch, however many they are.
void allow_any_number(OptionList& options) {
  constexpr const char* kKey = "queue_limit";
  if (std::ranges::find(options, kKey, &OptionList::value_type::first) != options.end()) return;
  options.emplace_back(kKey, std::to_string(static_cast<int64_t>(option_details(kKey).maximum)));
}

int64_t queue_limit_of(const Engine& engine) {
  const nlohmann::json info = nlohmann::json::parse(engine.info_json());
  return parse_int("queue_limit", info.at("options").at("queue_limit").get<std::string>(), 1,
                   INT64_MAX);
}

// Requests that wait for their batch. A batch is run when it has `batch_limit` of them (0: any
// number), and a line is written for each of its results.
class Batches {
 public:
  Batches(Engine& engine, LazyText& text, Output& out, Progress& progress, int64_t batch_limit,
          Totals& totals)
      : engine_(engine),
        text_(text),
        out_(out),
        progress_(progress),
        totals_(totals),
        batch_limit_(batch_limit),
        queue_limit_(queue_limit_of(engine)) {}

  void add(Request request) {
    queued_ += request.error.empty() && request.task != Task::kText;
    if (queued_ > queue_limit_)
      fail("line ", request.line, ": a batch of more than ", queue_limit_,
           " requests, as many as option queue_limit allows; --batch ", queue_limit_,
           " runs them in parts");
    waiting_.push_back(std::move(request));
    if (batch_limit_ > 0 && static_cast<int64_t>(waiting_.size()) >= batch_limit_) run();
  }

  void run() {
    queued_ = 0;
    if (waiting_.empty()) return;
    const Clock::time_point start = Clock::now();
    BatchRun run(engine_, text_, std::exchange(waiting_, {}));
    run.run(progress_);
    totals_.run_seconds += seconds_since(start);
    progress_.clear();
    for (size_t i = 0; i < run.requests().size(); ++i) {
      out_.stream() << result_line(run.requests()[i], run.results()[i]) << '\n';
      ++totals_.requests;
      totals_.failed += !run.results()[i].ok() || run.results()[i].some_failed;
    }
    out_.finish();
  }

 private:
  Engine& engine_;
  LazyText& text_;
  Output& out_;
  Progress& progress_;
  Totals& totals_;
  int64_t batch_limit_, queue_limit_;
  int64_t queued_ = 0;  // of those that wait: a task of texts takes its own parts
  std::vector<Request> waiting_;
};

void write_summary(Output& file, const Engine& engine, const Totals& totals) {
  const prefix_engine_stats s = engine.stats();
  const nlohmann::json info = nlohmann::json::parse(engine.info_json());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::ordered_json out;
  out["requests"] = totals.requests;
  out["failed"] = totals.failed;
  out["tokens_given"] = s.tokens_given;
  out["tokens_computed"] = s.tokens_computed;
  out["tokens_cached"] = s.tokens_cached;
  out["tokens_shared"] = s.tokens_shared;
  out["tokens_generated"] = s.tokens_generated;
  out["steps"] = s.steps;
  out["rows"] = s.rows;
  out["seconds"] = {{"load", totals.load_seconds}, {"run", totals.run_seconds}};
  out["bytes"] = {{"weights", s.weight_bytes},
                  {"kv_peak", s.kv_bytes_peak},
                  {"activation_peak", s.activation_bytes_peak},
                  {"rss_peak", int64_t{usage.ru_maxrss} * 1024}};
  for (const char* key : {"isa", "threads", "device", "dtype", "compute"})
    out[key] = info.contains(key) ? info[key] : nlohmann::json();
  file.stream() << out.dump(2) << "\n";
  file.finish();
}

void write_tree(Output& file, const Engine& engine) {
  file.stream() << engine.cache().tree_json() << "\n";
  file.finish();
}

}  // namespace

int run_command(const Args& args) {
  const std::string model = args.need("--model");
  OptionList options = engine_options(args);
  allow_any_number(options);
  const auto adapters = adapters_of(args);
  const int64_t batch_limit = args.get_int("--batch", 0, 0, int64_t{1} << 31);
  Progress progress("prefix run", args.choice("--progress", "auto", "auto|on|off"));

  // Before the model is loaded, so that a wrong path costs no time.
  const NamedFile in{"--in", args.get("--in", "-")}, of_model{"--model", model};
  const NamedFile of_out{"--out", args.get("--out", "-")};
  const NamedFile of_summary{"--summary", args.get("--summary")};
  Input input("--in", in.path);
  Output out("--out", of_out.path, {in, of_model});
  auto summary = output_if_named(args, "--summary", {in, of_model, of_out});
  auto tree = output_if_named(args, "--tree", {in, of_model, of_out, of_summary});

  Totals totals;
  std::optional<LogOnStandardError> log;  // the engine ends before it
  const Clock::time_point load_start = Clock::now();
  Engine engine =
      open_engine(model, options, [&](double fraction) { progress.show_load(fraction); });
  for (const auto& [name, path] : adapters) engine.load_adapter(name, path);
  totals.load_seconds = seconds_since(load_start);
  progress.clear();
  Warnings("prefix run").tell(engine);
  log.emplace();  // of what comes after the warnings
  LazyText text(model);

  Batches batches(engine, text, out, progress, batch_limit, totals);
  RequestReader reader(input.stream());
  Request request;
  for (auto kind = reader.next(request); kind != RequestReader::Kind::kEnd;
       kind = reader.next(request))
    kind == RequestReader::Kind::kFlush ? batches.run() : batches.add(std::move(request));
  input.check_end();
  batches.run();
  out.finish();  // of no requests, no results
  if (summary) write_summary(*summary, engine, totals);
  if (tree) write_tree(*tree, engine);
  return totals.failed ? kExitSomeFailed : kExitOk;
}

}  // namespace prefix_cli
