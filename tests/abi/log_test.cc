// The log: levels, the callback, and its polling twin, which keeps the last 1,024 messages.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "abi_support.h"
#include "support/temp_folder.h"

namespace prefix_abi {
namespace {

struct Seen {
  std::mutex mutex;
  std::vector<std::pair<int32_t, std::string>> messages;
};

void collect(int32_t level, const char* text, void* user) {
  auto* seen = static_cast<Seen*>(user);
  std::lock_guard lock(seen->mutex);
  seen->messages.emplace_back(level, text);
}

class Log : public testing::Test {
 protected:
  void SetUp() override { drain(); }
  void TearDown() override {
    prefix_set_log_callback(nullptr, nullptr);
    prefix_set_log_level(PREFIX_LOG_WARNING);
    drain();
  }
  static std::vector<std::pair<int32_t, std::string>> drain() {
    std::vector<std::pair<int32_t, std::string>> messages;
    char text[4096];
    int32_t level = -1;
    size_t needed = 0;
    while (prefix_log_next(&level, text, sizeof(text), &needed) == PREFIX_OK) {
      EXPECT_EQ(std::strlen(text), needed);
      messages.emplace_back(level, text);
    }
    return messages;
  }
};

TEST_F(Log, IsSilentByDefault) {
  Seen seen;
  prefix_set_log_callback(collect, &seen);
  make_engine();
  EXPECT_TRUE(seen.messages.empty()) << seen.messages.front().second;
  EXPECT_EQ(prefix_log_next(nullptr, nullptr, 0, nullptr), PREFIX_ERR_NO_EVENT);
}

TEST_F(Log, TakesMessagesOfTheProgram) {
  Seen seen;
  prefix_set_log_callback(collect, &seen);
  const auto write = [](int32_t level, const char* text, prefix_status status) {
    expect(status, [&](prefix_error* e) { return prefix_log_write(level, text, PREFIX_NUL, e); });
  };
  write(PREFIX_LOG_INFO, "below the level", PREFIX_OK);
  write(PREFIX_LOG_WARNING, "of the program", PREFIX_OK);
  const decltype(seen.messages) want = {{PREFIX_LOG_WARNING, "of the program"}};
  EXPECT_EQ(seen.messages, want);
  EXPECT_EQ(drain(), want);
  write(PREFIX_LOG_OFF, "no such level", PREFIX_ERR_OUT_OF_RANGE);
  write(-1, "no such level", PREFIX_ERR_OUT_OF_RANGE);
}

TEST_F(Log, TellsOfAModelThatIsLoaded) {
  Seen seen;
  prefix_set_log_level(PREFIX_LOG_INFO);
  prefix_set_log_callback(collect, &seen);
  make_engine();
  ASSERT_FALSE(seen.messages.empty());
  EXPECT_EQ(drain(), seen.messages) << "callback and polling twin tell the same";
  EXPECT_NE(seen.messages.front().second.find(model_path()), std::string::npos)
      << seen.messages.front().second;
  for (const auto& [level, text] : seen.messages) {
    EXPECT_EQ(level, PREFIX_LOG_INFO);
    EXPECT_EQ(text.find('\n'), std::string::npos) << "one line each";
  }
}

TEST_F(Log, LevelsDropWhatIsBelow) {
  for (const int level :
       std::initializer_list<int>{PREFIX_LOG_WARNING, PREFIX_LOG_ERROR, PREFIX_LOG_OFF, 99}) {
    prefix_set_log_level(level);
    make_engine();
    EXPECT_TRUE(drain().empty()) << level;
  }
  for (const int level : std::initializer_list<int>{PREFIX_LOG_INFO, PREFIX_LOG_DEBUG, -99}) {
    prefix_set_log_level(level);
    make_engine();
    EXPECT_FALSE(drain().empty()) << level;
  }
}

TEST_F(Log, NullStopsTheCallback) {
  Seen seen;
  prefix_set_log_level(PREFIX_LOG_INFO);
  prefix_set_log_callback(collect, &seen);
  prefix_set_log_callback(nullptr, nullptr);
  make_engine();
  EXPECT_TRUE(seen.messages.empty());
  EXPECT_FALSE(drain().empty());
}

// What `user` points to may go when the callback has been replaced.
TEST_F(Log, NoCallIsRunningWhenTheCallbackWasReplaced) {
  struct Gate {
    std::atomic<bool> entered{false}, open{false}, left{false};
  } gate;
  prefix_set_log_callback(
      [](int32_t, const char*, void* user) {
        auto& g = *static_cast<Gate*>(user);
        g.entered = true;
        while (!g.open) std::this_thread::yield();
        g.left = true;
      },
      &gate);
  std::thread logs([] { prefix_log_write(PREFIX_LOG_WARNING, "x", PREFIX_NUL, nullptr); });
  while (!gate.entered) std::this_thread::yield();
  std::atomic<bool> replaced{false}, had_left{false};
  std::thread replaces([&] {
    prefix_set_log_callback(nullptr, nullptr);
    had_left = gate.left.load();
    replaced = true;
  });
  for (int i = 0; i < 10'000 && !replaced; ++i) std::this_thread::yield();
  gate.open = true;
  replaces.join();
  logs.join();
  EXPECT_TRUE(had_left);
}

TEST_F(Log, ACallbackMayReplaceItself) {
  static std::atomic<int> calls;
  calls = 0;
  prefix_set_log_callback(
      [](int32_t, const char*, void*) {
        ++calls;
        prefix_set_log_callback(nullptr, nullptr);
      },
      nullptr);
  for (int i = 0; i < 2; ++i) prefix_log_write(PREFIX_LOG_WARNING, "x", PREFIX_NUL, nullptr);
  EXPECT_EQ(calls, 1);
}

// The thread that logs is the engine's, and the engine's end waits for it.
TEST_F(Log, ACallbackMayReleaseTheEngineThatCallsIt) {
  const prefix::testing_support::TempFolder folder;
  folder.write("tmp", std::string_view("not a folder"));
  static std::atomic<prefix_engine*> engine;
  static std::atomic<int32_t> status;
  static std::atomic<bool> released;
  prefix_set_log_level(PREFIX_LOG_INFO);
  engine = make_engine({{"cache_disk", folder.path().c_str()}}).give_up();
  prefix_set_log_callback(
      [](int32_t level, const char*, void*) {
        prefix_engine* const mine = level < PREFIX_LOG_WARNING ? nullptr : engine.exchange(nullptr);
        if (!mine) return;
        status = prefix_engine_shutdown(mine, 0, nullptr);
        prefix_engine_release(mine);
        released = true;
      },
      nullptr);
  {
    const Batch batch = make_batch(engine);
    add_logits(batch, Tokens(100, 3));
    const Job job = submit(engine, batch);
    EXPECT_EQ(prefix_job_detach(job, nullptr), PREFIX_OK);  // it keeps no engine
  }
  while (!released) std::this_thread::yield();
  EXPECT_EQ(status, PREFIX_ERR_MISUSE);
  char text[4096] = "";  // its end
  while (std::string_view(text).find("was shut down") == std::string_view::npos)
    prefix_log_next(nullptr, text, sizeof(text), nullptr);
}

// A message is removed by the call that gets it.
TEST_F(Log, AMessageStaysUntilItFits) {
  prefix_set_log_level(PREFIX_LOG_INFO);
  const Engine engine = make_engine();
  prefix_set_log_level(PREFIX_LOG_OFF);
  size_t needed = 0;
  EXPECT_EQ(prefix_log_next(nullptr, nullptr, 0, &needed), PREFIX_OK);
  ASSERT_GT(needed, 1u);
  for (int i = 0; i < 3; ++i) {
    std::string small(needed, '#');
    size_t again = 0;
    EXPECT_EQ(prefix_log_next(nullptr, small.data(), needed, &again), PREFIX_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(again, needed);
    EXPECT_EQ(small, std::string(needed, '#'));
  }
  std::string whole(needed + 1, '#');
  int32_t level = -1;
  EXPECT_EQ(prefix_log_next(&level, whole.data(), whole.size(), nullptr), PREFIX_OK);
  EXPECT_EQ(level, PREFIX_LOG_INFO);
  EXPECT_EQ(whole.back(), 0);
  EXPECT_EQ(prefix_log_next(nullptr, nullptr, 8, nullptr), PREFIX_ERR_NO_EVENT)
      << "nothing is left";
}

TEST_F(Log, OfManyMessagesTheLast1024AreKept) {
  for (int i = 0; i < 1030; ++i)
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_log_write(PREFIX_LOG_ERROR, std::to_string(i).c_str(), PREFIX_NUL, e);
    });
  const auto kept = drain();
  ASSERT_EQ(kept.size(), 1024u);
  for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i].second, std::to_string(i + 6));
}

// The callback may call the library: it is never called under a lock.
TEST_F(Log, TheCallbackMayCallTheLibrary) {
  struct State {
    std::atomic<int> calls{0};
  } state;
  prefix_set_log_level(PREFIX_LOG_INFO);
  prefix_set_log_callback(
      [](int32_t, const char*, void* user) {
        char text[4096];
        prefix_log_next(nullptr, text, sizeof(text), nullptr);
        prefix_options* options = nullptr;
        prefix_options_create(&options, nullptr);
        prefix_options_release(options);
        ++static_cast<State*>(user)->calls;
      },
      &state);
  Engine engine = make_engine();
  const int after_load = state.calls;
  EXPECT_GT(after_load, 0);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
}

TEST_F(Log, WhatACallbackLogsIsForThosePolling) {
  Seen seen;
  prefix_set_log_callback(
      [](int32_t level, const char* text, void* user) {
        collect(level, text, user);
        prefix_log_write(PREFIX_LOG_ERROR, "within", PREFIX_NUL, nullptr);
      },
      &seen);
  for (int i = 0; i < 2; ++i)
    expect(PREFIX_OK, [](prefix_error* e) {
      return prefix_log_write(PREFIX_LOG_ERROR, "outside", PREFIX_NUL, e);
    });
  using Messages = std::vector<std::pair<int32_t, std::string>>;
  const std::pair<int32_t, std::string> outside{PREFIX_LOG_ERROR, "outside"},
      within{PREFIX_LOG_ERROR, "within"};
  EXPECT_EQ(seen.messages, (Messages{outside, outside}));
  EXPECT_EQ(drain(), (Messages{outside, within, outside, within}));
}

// Each message comes out once, however many threads poll, and only the last 1,024 are kept.
TEST_F(Log, ManyThreadsPollEachMessageOnce) {
  prefix_set_log_level(PREFIX_LOG_INFO);
  Seen written;
  prefix_set_log_callback(collect, &written);
  std::atomic<bool> stop{false};
  Seen read;
  std::vector<std::thread> pollers;
  for (int i = 0; i < 4; ++i)
    pollers.emplace_back([&] {
      char text[4096];
      int32_t level = 0;
      for (;;) {
        const bool last = stop;
        if (prefix_log_next(&level, text, sizeof(text), nullptr) == PREFIX_OK) {
          collect(level, text, &read);
        } else if (last) {
          return;
        }
      }
    });
  for (int i = 0; i < (quick() ? 5 : 40); ++i) make_engine();
  stop = true;
  for (std::thread& poller : pollers) poller.join();
  EXPECT_EQ(read.messages.size(), written.messages.size());
}

}  // namespace
}  // namespace prefix_abi
