// Which launches become a graph, when it is replayed, and what happens when a step differs.
#include "ops/gpu/step_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace prefix::ops::gpu {
namespace {

// Writes down what it is asked for: launches by their grid, graphs as [their launches].
class Notebook final : public Runtime {
 public:
  std::string take() { return std::exchange(text_, ""); }
  void fail(Code code) { fails_ = code; }
  void refuse_graphs(Code code = Code::kInternal) { refusal_ = code; }
  size_t graphs() const { return graphs_.size(); }
  int records() const { return asked_; }

  const Properties& properties() const override { return properties_; }
  const char* error() const override { return error_.c_str(); }
  int64_t free_bytes() override { return 0; }
  Code allocate(size_t, void**) override { return note("allocate"); }
  void release(void*) override { note("release"); }
  Code allocate_pinned(size_t, void**) override { return note("pinned"); }
  void release_pinned(void*) override { note("unpinned"); }
  Code upload(void*, const void*, size_t) override { return note("upload"); }
  Code download(void*, const void*, size_t) override { return note("download"); }
  Code begin_download(void*, const void*, size_t) override { return note("begin"); }
  Code synchronize() override { return note("wait"); }
  Code launch(const Command& c) override {
    return note(c.kernel == Kernel::kClearPages ? "clear" : cat(c.grid_x));
  }
  Code gemm(const GemmArgs& a) override { return note(cat("x", a.rows)); }
  Code record(std::span<const Command> commands, int32_t* graph) override {
    ++asked_;
    if (refusal_ != Code::kOk) {
      error_ = "it was told to refuse";
      return refusal_;
    }
    *graph = next_++;
    graphs_[*graph].assign(commands.begin(), commands.end());
    return Code::kOk;
  }
  Code replay(int32_t graph) override {
    return note(cat("[", graphs_.at(graph).size(), " from ", graphs_.at(graph)[0].grid_x, "]"));
  }
  void forget(int32_t graph) override { graphs_.erase(graph); }

 private:
  Code note(const std::string& what) {
    if (fails_ != Code::kOk) {
      error_ = "it was told to fail: " + what;
      return std::exchange(fails_, Code::kOk);
    }
    text_ += (text_.empty() ? "" : " ") + what;
    return Code::kOk;
  }
  Properties properties_;
  std::string text_;
  Code fails_ = Code::kOk;
  Code refusal_ = Code::kOk;
  static inline thread_local std::string error_;
  int asked_ = 0;
  int32_t next_ = 7;
  std::map<int32_t, std::vector<Command>> graphs_;
};

class StepGraphsTest : public ::testing::Test {
 protected:
  StepGraphsTest() { begin(true); }
  void begin(bool enabled) {
    auto made = std::make_unique<Notebook>();
    notebook_ = made.get();
    graphs_ = std::make_unique<StepGraphs>(std::move(made), enabled);
  }
  Code launch(uint32_t number, Kernel kernel = Kernel::kRmsNorm) {
    const int64_t args[2] = {number, 5};
    return graphs_->launch(command_of(kernel, number, 1, args));
  }
  // Launches number .. number + count - 1; the one in the middle of `whole` is a product.
  Code launches(uint32_t number, uint32_t count = 20, uint32_t whole = 20) {
    for (uint32_t i = 0; i < count; ++i) {
      GemmArgs product{};
      product.rows = number + i;
      const Code code = i == whole / 2 ? graphs_->gemm(product) : launch(number + i);
      if (code != Code::kOk) return code;
    }
    return Code::kOk;
  }
  static std::string listed(uint32_t number, uint32_t count = 20, uint32_t whole = 20) {
    std::string text;
    for (uint32_t i = 0; i < count; ++i)
      text += cat(i > 0 ? " " : "", i == whole / 2 ? "x" : "", number + i);
    return text;
  }
  // A whole step; what the runtime was asked for.
  std::string step(uint32_t number, uint32_t count = 20) {
    EXPECT_EQ(launches(number, count), Code::kOk);
    EXPECT_EQ(graphs_->cut(), Code::kOk);
    return notebook_->take();
  }
  void learn(uint32_t number, uint32_t count = 20) {
    step(number, count);
    step(number, count);
  }

  Notebook* notebook_ = nullptr;
  std::unique_ptr<StepGraphs> graphs_;
};

TEST_F(StepGraphsTest, TheThirdTimeIsAReplay) {
  EXPECT_EQ(step(100), listed(100));
  EXPECT_EQ(step(100), listed(100));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(100), "[20 from 100]");
  EXPECT_EQ(notebook_->records(), 1);
}

TEST_F(StepGraphsTest, EveryOtherCallEndsAStretch) {
  learn(100);
  char byte = 0;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"upload", [&] { graphs_->upload(&byte, &byte, 1); }},
      {"download", [&] { graphs_->download(&byte, &byte, 1); }},
      {"begin", [&] { graphs_->begin_download(&byte, &byte, 1); }},
      {"wait", [&] { graphs_->synchronize(); }},
      {"release", [&] { graphs_->release(&byte); }},
  };
  for (const auto& [name, call] : calls) {
    launches(100);
    EXPECT_EQ(notebook_->take(), "");
    call();
    EXPECT_EQ(notebook_->take(), "[20 from 100] " + name);
    launches(100, 5);  // a step that was aborted
    call();
    EXPECT_EQ(notebook_->take(), listed(100, 5) + " " + name);
  }
}

TEST_F(StepGraphsTest, ALaunchThatDiffersGoesOnOneByOne) {
  learn(100);
  for (uint32_t at = 0; at < 20; ++at) {
    launches(100, at);
    launch(500 + at);
    EXPECT_EQ(notebook_->take(), listed(100, at) + (at > 0 ? " " : "") + cat(500 + at));
    launch(7);
    graphs_->cut();
    EXPECT_EQ(notebook_->take(), "7");
  }
  EXPECT_EQ(step(100), "[20 from 100]");
}

TEST_F(StepGraphsTest, OneByteOfTheArgumentsOrTheSizeOfAClusterIsADifference) {
  learn(100);
  const int64_t args[2] = {100, 5}, other[2] = {100, 6};
  graphs_->launch(command_of(Kernel::kRmsNorm, 100, 1, other));
  EXPECT_EQ(notebook_->take(), "100");
  graphs_->cut();
  graphs_->launch(command_of(Kernel::kRmsNorm, 100, 1, args, 0, 2));
  EXPECT_EQ(notebook_->take(), "100");
}

TEST_F(StepGraphsTest, GraphsThatBeginAlikeAreToldApart) {
  learn(100, 20);
  const auto other = [&] {
    launches(100, 20);
    launch(1);
    launch(2);
    graphs_->cut();
    return notebook_->take();
  };
  EXPECT_EQ(other(), listed(100) + " 1 2");
  EXPECT_EQ(other(), listed(100) + " 1 2");
  EXPECT_EQ(other(), "[22 from 100]");
  EXPECT_EQ(step(100), "[20 from 100]");
  EXPECT_EQ(other(), "[22 from 100]");
}

TEST_F(StepGraphsTest, PagesAreClearedBeforeTheGraph) {
  learn(100);
  launch(3, Kernel::kClearPages);
  EXPECT_EQ(notebook_->take(), "clear");
  EXPECT_EQ(step(100), "[20 from 100]");
}

TEST_F(StepGraphsTest, ShortStretchesAreNotWorthIt) {
  learn(100, StepGraphs::kMinCommands - 1);
  step(100, StepGraphs::kMinCommands - 1);
  EXPECT_EQ(notebook_->records(), 0);
}

TEST_F(StepGraphsTest, TheOneThatWasUsedLongestAgoMakesRoom) {
  const auto most = static_cast<uint32_t>(StepGraphs::kMaxGraphs);
  for (uint32_t i = 0; i < most; ++i) learn(1000 * (i + 1));
  EXPECT_EQ(step(1000), "[20 from 1000]");
  learn(500'000);
  EXPECT_EQ(notebook_->graphs(), StepGraphs::kMaxGraphs);
  EXPECT_EQ(step(1000), "[20 from 1000]");
  EXPECT_EQ(step(2000), listed(2000));
}

TEST_F(StepGraphsTest, ARuntimeThatCannotRecordIsNotAskedAgain) {
  notebook_->refuse_graphs();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(100), listed(100));
  learn(200);
  EXPECT_EQ(notebook_->records(), 1);
}

TEST_F(StepGraphsTest, FailuresAreSaidByTheCallThatMeetsThem) {
  learn(100);
  launches(100);
  notebook_->fail(Code::kDeviceLost);
  EXPECT_EQ(graphs_->cut(), Code::kDeviceLost);  // the replay
  launches(100, 5);
  notebook_->fail(Code::kInternal);
  EXPECT_EQ(launch(1), Code::kInternal);  // of what was held back
  graphs_->cut();
  notebook_->take();
  // A release cannot say it.
  char byte = 0;
  launches(100);
  notebook_->fail(Code::kDeviceLost);
  graphs_->release(&byte);
  EXPECT_EQ(launch(1), Code::kDeviceLost);
  graphs_->cut();
  notebook_->take();
  EXPECT_EQ(step(100), "[20 from 100]");
}

// A copy of a snapshot, say, ends the stretch of a step: it works, the step does not.
TEST_F(StepGraphsTest, AFailureBelongsToTheThreadThatLaunched) {
  learn(100);
  char byte = 0;
  const auto elsewhere = [&](const std::function<Code()>& call) {
    notebook_->fail(Code::kDeviceLost);
    Code code = Code::kInternal;
    std::thread([&] { code = call(); }).join();
    return code;
  };
  const auto copy = [&] { return graphs_->download(&byte, &byte, 1); };
  launches(100);
  EXPECT_EQ(elsewhere(copy), Code::kOk);
  EXPECT_EQ(graphs_->synchronize(), Code::kDeviceLost);
  EXPECT_STREQ(graphs_->error(), "it was told to fail: [20 from 100]");
  launches(100, 3);
  EXPECT_EQ(elsewhere(copy), Code::kOk);
  EXPECT_EQ(launch(1), Code::kDeviceLost);
  EXPECT_STREQ(graphs_->error(), "it was told to fail: 100");
  notebook_->take();
  // What fails in the other thread's own call is its own.
  EXPECT_EQ(elsewhere(copy), Code::kDeviceLost);
  EXPECT_EQ(step(100), "[20 from 100]");
  // The text of a later failure is the runtime's again.
  notebook_->fail(Code::kInternal);
  EXPECT_EQ(graphs_->upload(&byte, &byte, 1), Code::kInternal);
  EXPECT_STREQ(graphs_->error(), "it was told to fail: upload");
}

TEST_F(StepGraphsTest, AnAbortedStepLeavesNothingForTheNext) {
  learn(100);
  ASSERT_EQ(launches(100, 7), Code::kOk);  // held back
  graphs_->abort();
  EXPECT_EQ(graphs_->synchronize(), Code::kOk);
  EXPECT_EQ(notebook_->take(), "wait");
  EXPECT_EQ(step(100), "[20 from 100]");
  // Nor does a failure that nobody has been told of.
  ASSERT_EQ(launches(100), Code::kOk);
  notebook_->fail(Code::kInternal);
  char byte = 0;
  graphs_->release(&byte);
  graphs_->abort();
  notebook_->take();
  EXPECT_EQ(step(100), "[20 from 100]");
}

TEST_F(StepGraphsTest, AGraphWithoutMemoryGoesAndItsLaunchesGoOn) {
  learn(100);
  learn(200);
  ASSERT_EQ(launches(100), Code::kOk);
  notebook_->fail(Code::kOutOfDeviceMemory);
  EXPECT_EQ(graphs_->cut(), Code::kOk);
  EXPECT_EQ(notebook_->take(), listed(100));
  EXPECT_EQ(notebook_->graphs(), 1u);
  EXPECT_EQ(step(200), "[20 from 200]");
}

TEST_F(StepGraphsTest, NoMemoryForAGraphIsNoReasonToGiveUp) {
  learn(100);
  learn(200);
  notebook_->refuse_graphs(Code::kOutOfDeviceMemory);
  learn(300);
  EXPECT_EQ(notebook_->graphs(), 1u);  // the half that was used longest ago made room
  EXPECT_EQ(graphs_->counts().refused, 1);
  EXPECT_EQ(graphs_->counts().why, "it was told to refuse");
  notebook_->refuse_graphs(Code::kOk);
  learn(300);
  EXPECT_EQ(step(300), "[20 from 300]");
  EXPECT_EQ(graphs_->counts().recorded, 3);
  EXPECT_EQ(graphs_->counts().replayed, 1);
}

TEST_F(StepGraphsTest, WithoutGraphsEverythingGoesOnAtOnce) {
  begin(false);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(100), listed(100));
  EXPECT_EQ(notebook_->records(), 0);
}

TEST(Padding, IsSmall) {
  EXPECT_EQ(padded_rows(0), 0);
  for (int64_t rows = 1; rows <= 4096; ++rows) {
    EXPECT_GE(padded_rows(rows), rows);
    EXPECT_LE(padded_rows(rows), (rows + 63) / 64 * 64) << rows;  // what activations have room for
    EXPECT_TRUE(rows <= 256 || padded_rows(rows) == rows) << rows;
  }
  EXPECT_EQ(padded_rows(31), 32);
  for (int64_t items = 0; items <= 5000; ++items) {
    EXPECT_GE(padded_items(items), items);
    EXPECT_LE(padded_items(items), items + items / 4) << items;
    EXPECT_EQ(padded_items(padded_items(items)), padded_items(items));
  }
}

}  // namespace
}  // namespace prefix::ops::gpu
