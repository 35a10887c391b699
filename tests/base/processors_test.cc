// Lists of processors as text, and which of them may be used.
#include "base/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/status.h"
#include "support/expect_error.h"
#include "support/on_processors.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::OnProcessors;

TEST(Processors, ListsAreReadAndWritten) {
  for (const auto& [text, list, shortest] :
       {std::tuple("", Processors{}, ""), std::tuple("0", Processors{0}, "0"),
        std::tuple("0-3,8", Processors{0, 1, 2, 3, 8}, "0-3,8"),
        std::tuple("8,0-3", Processors{0, 1, 2, 3, 8}, "0-3,8"),
        std::tuple("4,5,6", Processors{4, 5, 6}, "4-6"),
        std::tuple("1,1,0-1,1-1", Processors{0, 1}, "0-1"),
        std::tuple("65535", Processors{65535}, "65535")}) {
    EXPECT_EQ(parse_processors(text, "cpus"), list) << text;
    EXPECT_EQ(processors_text(list), shortest);
  }
}

TEST(Processors, WhatIsNoListIsRefusedWithTheText) {
  for (const char* text : {"x", "0-", "-1", "-", ",", "0,", ",0", "0,,1", "3-1", "0-1-2", " 0",
                           "0 ", "0x1", "1.5", "0;1", "+1", "--1", "0--1", "all"})
    expect_error(Code::kInvalidArgument, {"option cpus", text, "0-3,8"},
                 [&] { parse_processors(text, "option cpus"); });
  for (const char* text : {"65536", "0-65536", "99999999999999999999", "0,1,4294967296"})
    expect_error(Code::kOutOfRange, {"option cpus", text, "[0, 65535]"},
                 [&] { parse_processors(text, "option cpus"); });
}

TEST(Processors, ThoseOfTheThreadAreAllowed) {
  EXPECT_EQ(allowed_processors(), testing_support::processors());
  const OnProcessors one(1);
  const Processors allowed = allowed_processors();
  ASSERT_EQ(allowed.size(), 1u);
  EXPECT_NO_THROW(require_allowed(allowed, "cpus"));
  EXPECT_NO_THROW(require_allowed({}, "cpus"));
  const int other = allowed[0] + 1;
  const std::string wrong = cat("processor ", other), right = cat("only ", allowed[0]);
  expect_error(Code::kOutOfRange, {"option cpus", wrong, right},
               [&] { require_allowed({allowed[0], other}, "option cpus"); });
}

// A host that binds a thread to make a pool for other processors.
TEST(Processors, ABoundThreadMayNameThoseOfTheProcess) {
  const Processors all = allowed_processors();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  std::thread([&] {
    ASSERT_EQ(bind_thread(pthread_self(), {all.front()}), 0);
    EXPECT_NO_THROW(require_allowed(all, "option cpus"));
    const int other = all.back() + 1;
    expect_error(Code::kOutOfRange, {cat("processor ", other), processors_text(all)},
                 [&] { require_allowed({all.front(), other}, "option cpus"); });
  }).join();
}

TEST(Processors, TheirNameIsThatOfTheSystem) {
  const testing_support::TempFolder root;
  EXPECT_EQ(processor_name(root.path()), "");
  std::filesystem::create_directory(root / "proc");
  for (const auto& [text, name] :
       {std::pair("processor\t: 0\nmodel\t\t: 143\nmodel name\t: Maker(R) 8481C: 2 GHz \n"
                  "model name\t: Another\n",
                  "Maker(R) 8481C: 2 GHz"),
        std::pair("model name\t:\n", ""), std::pair("model name", ""), std::pair("", ""),
        std::pair("processor : 0\nBogoMIPS : 50\n", "")}) {
    root.write("proc/cpuinfo", text);
    EXPECT_EQ(processor_name(root.path()), name);
  }
}

TEST(Processors, OnlyTheThreadThatWasMeantIsBound) {
  const Processors before = allowed_processors();
  std::thread([&] {
    EXPECT_EQ(bind_thread(pthread_self(), {before.back()}), 0);
    EXPECT_EQ(allowed_processors(), Processors{before.back()});
    EXPECT_EQ(bind_thread(pthread_self(), {}), 0) << "nothing to do";
    EXPECT_EQ(allowed_processors(), Processors{before.back()});
    EXPECT_NE(bind_thread(pthread_self(), {65535}), 0) << "there is no such processor";
  }).join();
  EXPECT_EQ(allowed_processors(), before);
}

}  // namespace
}  // namespace prefix
