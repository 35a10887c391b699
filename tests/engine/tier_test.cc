// Pages that leave memory and come back: a later engine, or another machine, gets the same bits,
// whatever has happened to the folder. Whoever must not see a page never does.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "tier_support.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

RequestSpec generate(const std::vector<int32_t>& tokens, int32_t name_space = 0) {
  RequestSpec spec;
  spec.tokens = tokens;
  spec.name_space = name_space;
  spec.sampling.max_tokens = 4;
  spec.sampling.ignore_eos = true;
  spec.sampling.logprobs = true;
  return spec;
}

std::vector<fs::path> page_files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;  // the engine may remove a file just now
  for (fs::recursive_directory_iterator at(folder, error), end; at != end; at.increment(error)) {
    if (error) break;
    if (at->path().extension() == ".page") files.push_back(at->path());
  }
  return files;
}

// --- warm equals cold ----------------------------------------------------------------------------

struct Setting {
  const char* name;
  const char* dtype;
  const char* rows;
  const char* disk_bytes;
  int64_t pages;  // of memory
  int cases;
};

class WarmEqualsColdOverRestarts : public testing::TestWithParam<Setting> {
 protected:
  // The same three namespaces, opened in any order.
  void restart() {
    engine_.reset();
    const Setting& s = GetParam();
    engine_ = open_over(folder_ / "pages", s.pages,
                        {{"dtype", s.dtype}, {"rows", s.rows}, {"cache_disk_bytes", s.disk_bytes}});
    std::vector<size_t> order{0, 1, 2};
    std::shuffle(order.begin(), order.end(), random_);
    for (const size_t i : order)
      spaces_[i] = i == 0 ? 0 : engine_->open_namespace(i == 1 ? "tenant a" : "tenant b");
  }

  TempFolder folder_;
  std::mt19937 random_{17};
  std::shared_ptr<Engine> engine_;
  int32_t spaces_[3] = {0, 0, 0};
};

TEST_P(WarmEqualsColdOverRestarts, InEveryStateOfMemoryAndDisk) {
  const int wanted = cases(GetParam().cases);
  int done = 0, restarts = 0, fetched = 0, fetched_more = 0;
  while (done < wanted) {
    const KnownRequests known(random_, 40, GetParam().dtype);
    for (int round = 0; round < 120; ++round) {
      if (round % 30 == 0) {
        restart();
        ++restarts;
      }
      if (random_() % 10 == 0) engine_->cache_trim(0);
      std::vector<size_t> chosen;
      std::vector<RequestSpec> batch;
      do {
        chosen.push_back(random_() % known.requests.size());
        batch.push_back(known.requests[chosen.back()]);
        batch.back().name_space = spaces_[random_() % 3];
      } while (random_() % 4 == 0);
      const int64_t in_memory =
          look_up(*engine_, batch[0].tokens, batch[0].name_space).cached_tokens;
      const auto job = run_all(*engine_, batch);
      for (size_t i = 0; i < chosen.size(); ++i) {
        known.check(job->result(i), chosen[i]);
        if (HasFatalFailure()) FAIL() << "case " << done << ", request " << i << " of a batch";
        ++done;
      }
      if (chosen.size() == 1 && job->result(0).usage.cached > in_memory) {
        ++fetched;
        fetched_more += in_memory > 0;
      }
    }
    engine_->cache_trim(0);
    ASSERT_EQ(engine_->stats().pages_used, 0);
  }
  engine_.reset();
  std::printf(
      "%s: %d cases, %d restarts; %d requests alone had pages from disk, %d of them behind "
      "some in memory\n",
      GetParam().name, done, restarts, fetched, fetched_more);
  EXPECT_GE(fetched, done / 20);
  EXPECT_GE(fetched_more, done / 200);
}

INSTANTIATE_TEST_SUITE_P(Settings, WarmEqualsColdOverRestarts,
                         testing::Values(Setting{"rows_of_7", "bf16", "7", "1G", 24, 2000},
                                         Setting{"rows_of_31", "bf16", "31", "1G", 40, 3000},
                                         Setting{"small_disk", "bf16", "31", "1M", 24, 1500},
                                         Setting{"f32", "f32", "31", "1G", 24, 1000}),
                         [](const auto& setting) { return setting.param.name; });

// --- who gets which pages ------------------------------------------------------------------------

struct Tiers : testing::Test {
  // What a new engine over the folder reads of the prompt from there; its results are checked.
  int64_t cached_by(const EngineOptions& options = {}, const char* name_space = "",
                    const TinyCheckpoint& checkpoint = tiny_checkpoint()) {
    const auto cold = run_all(*open_over("", 1000, options, checkpoint), {generate(prompt)});
    const auto engine = open_over(folder, 1000, options, checkpoint);
    const auto warm =
        run_all(*engine, {generate(prompt, *name_space ? engine->open_namespace(name_space) : 0)});
    EXPECT_EQ(warm->result(0).status, Code::kOk) << warm->result(0).message;
    EXPECT_TRUE(same_bits(cold->result(0), warm->result(0)));
    const Usage& usage = warm->result(0).usage;
    EXPECT_EQ(usage.cached + usage.computed, 100);
    EXPECT_EQ(engine->stats().fetched_tokens, usage.cached);
    return usage.cached;
  }

  TempFolder temporary;
  const std::string folder = temporary / "pages";
  std::mt19937 random{7};
  const std::vector<int32_t> prompt = random_tokens(random, 100, kVocab);
};

TEST_F(Tiers, ALaterEngineComputesOnlyWhatIsNotOnDisk) {
  EXPECT_EQ(cached_by(), 0);
  EXPECT_EQ(page_files(folder).size(), 3u);
  EXPECT_EQ(cached_by(), 96);
  EXPECT_EQ(cached_by({{"rows", "7"}}), 96);
  EXPECT_EQ(cached_by({{"threads", "2"}}), 96) << "results do not depend on threads, nor do pages";
  EXPECT_EQ(page_files(folder).size(), 3u);
}

TEST_F(Tiers, AnotherNamespaceGetsNone) {
  EXPECT_EQ(cached_by(), 0);
  EXPECT_EQ(cached_by({}, "tenant a"), 0);
  EXPECT_EQ(cached_by({}, "tenant b"), 0);
  EXPECT_EQ(cached_by({}, "tenant a"), 96);
  EXPECT_EQ(page_files(folder).size(), 9u);
}

// Below memory a namespace is its name.
TEST_F(Tiers, WhoseNamespaceWasClosedFindsItsPagesAgain) {
  EXPECT_EQ(cached_by({}, "tenant a"), 0);
  const auto engine = open_over(folder);
  for (int visit = 0; visit < 2; ++visit) {
    const int32_t tenant = engine->open_namespace("tenant a");
    EXPECT_EQ(run_all(*engine, {generate(prompt, tenant)})->result(0).usage.cached, 96);
    engine->close_namespace(tenant);
    EXPECT_EQ(page_files(folder).size(), 3u);
  }
  EXPECT_EQ(engine->stats().fetched_tokens, 2 * 96);
}

TEST_F(Tiers, AnotherNumericModeGetsNone) {
  EXPECT_EQ(cached_by({{"dtype", "bf16"}}), 0);
  EXPECT_EQ(cached_by({{"dtype", "f32"}}), 0);
  EXPECT_EQ(cached_by({{"dtype", "bf16"}}), 96);
  EXPECT_EQ(cached_by({{"dtype", "f32"}}), 96);
}

TEST_F(Tiers, AnotherInstructionSetGetsNone) {
  if (open_over("")->info().isa == "scalar") GTEST_SKIP() << "this machine has only one level";
  EXPECT_EQ(cached_by(), 0);
  EXPECT_EQ(cached_by({{"isa", "scalar"}}), 0);
  EXPECT_EQ(cached_by(), 96);
  EXPECT_EQ(cached_by({{"isa", "scalar"}}), 96);
}

TEST_F(Tiers, AnotherModelOfTheSameShapeGetsNone) {
  tools::CheckpointShape shape;
  shape.seed = 2;
  const TinyCheckpoint other(shape);
  EXPECT_EQ(cached_by(), 0);
  EXPECT_EQ(cached_by({}, "", other), 0);
  EXPECT_EQ(cached_by(), 96);
  EXPECT_EQ(cached_by({}, "", other), 96);
}

TEST_F(Tiers, WhatAGenerationAddedComesBackToo) {
  RequestSpec spec = generate(prompt);
  spec.sampling.max_tokens = 40;
  const auto first = run_all(*open_over(folder), {spec});
  std::vector<int32_t> dialogue = prompt;
  for (const int32_t token : first->result(0).tokens) dialogue.push_back(token);
  const auto next = run_all(*open_over(folder), {generate(dialogue)});
  EXPECT_EQ(next->result(0).usage.cached, 128) << "of 140";
}

TEST_F(Tiers, OneRequestOfABatchReadsForAll) {
  run_all(*open_over(folder), {generate(prompt)});
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 40; ++i) {
    batch.push_back(generate(prompt));
    batch.back().tokens.push_back(i);
  }
  const auto engine = open_over(folder);
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i) EXPECT_GE(job->result(i).usage.cached, 96) << i;
  EXPECT_EQ(job->totals().tokens_computed, 4 + 40);
  EXPECT_EQ(engine->stats().fetched_tokens, 96);
}

// Memory is so small that each prompt drives out the one before.
TEST_F(Tiers, PagesComeBackWithinOneProcess) {
  const auto engine = open_over(folder, 8);
  const std::vector<int32_t> other = random_tokens(random, 200, kVocab);
  run_all(*engine, {logits_of(prompt)});
  run_all(*engine, {logits_of(other)});
  ASSERT_LT(look_up(*engine, prompt).cached_tokens, 96);
  // A page that is being written is there for readers a moment later: a new engine waits for it.
  engine->shutdown(0);
  const auto next = open_over(folder, 8);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(run_all(*next, {logits_of(prompt)})->result(0).usage.cached, 96);
    EXPECT_EQ(run_all(*next, {logits_of(other)})->result(0).usage.cached, 192);
  }
}

// Some 63 pages; two threads may make room for two at once.
constexpr const char* kSmallFolder = "1M";
constexpr int64_t kFits = 60 * 32;

TEST_F(Tiers, OfAPromptThatIsLargerThanTheFolderTheBeginningIsFound) {
  const RequestSpec large = logits_of(random_tokens(random, 80 * 32 + 1, kVocab));
  run_all(*open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}}), {large});
  const auto next = open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}});
  EXPECT_GE(run_all(*next, {large})->result(0).usage.cached, kFits);
}

TEST_F(Tiers, OfAConversationThatIsLargerThanTheFolderTheBeginningIsFound) {
  const std::vector<int32_t> tokens = random_tokens(random, 80 * 32 + 1, kVocab);
  {
    const auto engine = open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}});
    for (const size_t turn : {30, 60, 70, 80})
      run_all(*engine, {logits_of({tokens.begin(), tokens.begin() + 32 * turn + 1})});
  }
  const auto next = open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}});
  EXPECT_GE(run_all(*next, {logits_of(tokens)})->result(0).usage.cached, 50 * 32);
}

TEST_F(Tiers, PromptsThatShareAFolderLoseTheirEnds) {
  std::vector<RequestSpec> prompts;
  for (int i = 0; i < 4; ++i)
    prompts.push_back(logits_of(random_tokens(random, 17 * 32 + 1, kVocab)));
  for (const RequestSpec& one : prompts)
    run_all(*open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}}), {one});
  for (const RequestSpec& one : prompts) {
    const auto engine = open_over(folder, 200, {{"cache_disk_bytes", kSmallFolder}});
    EXPECT_GE(run_all(*engine, {one})->result(0).usage.cached, 9 * 32);
  }
}

TEST_F(Tiers, WhatComesBackHasTheTimeToLiveOfItsRequest) {
  RequestSpec spec = logits_of(prompt);
  run_all(*open_over(folder), {spec});
  spec.cache_ttl_ms = 1;
  const auto engine = open_over(folder);
  EXPECT_EQ(run_all(*engine, {spec})->result(0).usage.cached, 96);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (look_up(*engine, prompt).cached_tokens > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(look_up(*engine, prompt).cached_tokens, 0);
}

// --- folders and files that fail -----------------------------------------------------------------

// Does something to a file that no reader may fall for.
void damage(const fs::path& file, const std::vector<fs::path>& all, std::mt19937& random) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || size == 0) return;
  switch (random() % 5) {
    case 0:
      fs::remove(file, error);
      break;
    case 1:
      fs::resize_file(file, random() % size, error);
      break;
    case 2:
      fs::resize_file(file, size + 1, error);
      break;
    case 3:
      fs::copy_file(all[random() % all.size()], file, fs::copy_options::overwrite_existing, error);
      break;
    default:
      std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
      const auto at = static_cast<std::streamoff>(random() % size);
      bytes.seekg(at);
      const int old = bytes.get();
      bytes.seekp(at);
      bytes.put(static_cast<char>(old ^ (1 + static_cast<int>(random() % 255))));
  }
}

TEST_F(Tiers, FilesThatAreDamagedUnderARunningEngineChangeNoResult) {
  const KnownRequests known(random, 40);
  const auto engine = open_over(folder, 40);
  int from_disk = 0;
  const int rounds = cases(1500);
  for (int round = 0; round < rounds; ++round) {
    if (round % 20 == 0) {
      const std::vector<fs::path> files = page_files(folder);
      for (const fs::path& file : files)
        if (random() % 8 == 0) damage(file, files, random);
      if (round >= rounds * 3 / 4) fs::remove_all(folder);
    }
    if (random() % 3 == 0) engine->cache_trim(0);
    const size_t i = random() % known.requests.size();
    const int64_t in_memory = look_up(*engine, known.requests[i].tokens).cached_tokens;
    const auto job = run_all(*engine, {known.requests[i]});
    known.check(job->result(0), i);
    if (HasFatalFailure()) FAIL() << "round " << round;
    from_disk += job->result(0).usage.cached > in_memory;
  }
  EXPECT_GE(from_disk, rounds / 20);
}

TEST_F(Tiers, WithoutAFolderToWriteToTheEngineComputes) {
  const std::string file = temporary.write("file", "not a folder");
  const KnownRequests known(random, 20);
  for (const std::string& bad : {file, file + "/pages", temporary / "missing/above"}) {
    LogLevel level;
    std::string logged;
    while (next_log(SIZE_MAX, &level, &logged)) {
    }
    const auto engine = open_over(bad);
    const nlohmann::json warnings = nlohmann::json::parse(engine->info_json()).at("warnings");
    ASSERT_EQ(warnings.size(), 1u);
    // In the same words, so that a reader of both tells it once. The memory was estimated before.
    int told = 0;
    while (next_log(SIZE_MAX, &level, &logged)) told += logged == warnings[0];
    EXPECT_EQ(told, 1);
    const auto job = run_all(*engine, known.requests);
    for (size_t i = 0; i < known.requests.size(); ++i) known.check(job->result(i), i);
  }
}

TEST_F(Tiers, AFolderThatCannotBeWrittenIsReadAllTheSame) {
  EXPECT_EQ(cached_by(), 0);
  const auto protect = [&](mode_t folders, mode_t files) {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      chmod(entry.path().c_str(), entry.is_directory() ? folders : files);
    chmod(folder.c_str(), folders);
  };
  protect(0500, 0400);
  const KnownRequests known(random, 20);
  {
    const auto engine = open_over(folder);
    EXPECT_EQ(run_all(*engine, {generate(prompt)})->result(0).usage.cached, 96);
    const auto job = run_all(*engine, known.requests);
    for (size_t i = 0; i < known.requests.size(); ++i) known.check(job->result(i), i);
  }
  chmod(folder.c_str(), 0700);
  protect(0700, 0600);
}

}  // namespace
}  // namespace prefix
