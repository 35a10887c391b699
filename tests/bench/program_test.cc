// What the programs of bench/ have in common:
// lines that are JSON whatever is in them, and options that are read from one list.
#include "../../bench/program.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../bench/line.h"

namespace prefix::bench {
namespace {

std::string printed(Line line) {
  testing::internal::CaptureStdout();
  line.print();
  return testing::internal::GetCapturedStdout();
}

TEST(BenchLine, IsJsonWhateverIsInIt) {
  Line line("x\"\\\n");
  line.field("text", "a \"b\"").field("true", true).field("count", int64_t{1} << 60);
  line.open("inside").field("pi", 3.14159265).close().json("options", "{\"a\":1}");
  line.list("batch", std::vector<int>{1, 2});
  const std::string text = printed(line);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["bench"], "x\"\\\n");
  EXPECT_EQ(json["text"], "a \"b\"");
  EXPECT_EQ(json["true"], true);
  EXPECT_EQ(json["count"], int64_t{1} << 60);
  EXPECT_EQ(json["inside"]["pi"], 3.14159);
  EXPECT_EQ(json["options"]["a"], 1);
  EXPECT_EQ(json["batch"], nlohmann::json({1, 2}));
  EXPECT_EQ(json["machine"], processor_name());
}

TEST(BenchLine, WhatIsNoNumberIsNull) {
  Line line("x", "a machine");
  line.field("nan", std::numeric_limits<double>::quiet_NaN());
  line.field("inf", -std::numeric_limits<double>::infinity()).field("tiny", 1.5e-300);
  const auto json = nlohmann::json::parse(printed(line));
  EXPECT_TRUE(json["nan"].is_null() && json["inf"].is_null());
  EXPECT_EQ(json["tiny"], 1.5e-300);
  EXPECT_EQ(json["machine"], "a machine");
}

struct Settings {
  std::string model, isa = "auto", dtype;
  int threads = 2;
  bool quick = false;
  std::vector<int> rows = {1, 2};
  std::vector<std::string> each;
};

struct Ran {
  int code;
  std::string out, err;
  Settings s;
};

Ran run(std::vector<const char*> argv, const std::function<void()>& work = [] {}) {
  Ran r;
  Program program("x_bench", "how fast x is", "MODEL");
  program.argument("MODEL", "a model", r.s.model);
  program.option("--isa", "NAME", "the level", r.s.isa);
  program.choice("--dtype", "bf16|f32", "a type", r.s.dtype);
  program.option("--threads", "N", "threads", r.s.threads, 1, 8);
  program.flag("--quick", "less", r.s.quick);
  program.list("--rows", "N", "rows", r.s.rows, 1, 9);
  program.option("--each", "X", "one", [&](const std::string& x) { r.s.each.push_back(x); });
  argv.insert(argv.begin(), "x_bench");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  r.code = program.run(static_cast<int>(argv.size()), argv.data(), work);
  r.out = testing::internal::GetCapturedStdout();
  r.err = testing::internal::GetCapturedStderr();
  return r;
}

TEST(BenchProgram, ReadsWhatItLists) {
  const Ran r = run({"--threads", "8", "m", "--quick", "--rows", "3", "--rows", "9", "--dtype",
                     "f32", "--each", "a", "--each", "--quick", "--isa", ""});
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.s.model, "m");
  EXPECT_EQ(r.s.threads, 8);
  EXPECT_TRUE(r.s.quick);
  EXPECT_EQ(r.s.rows, (std::vector<int>{3, 9}));
  EXPECT_EQ(r.s.dtype, "f32");
  EXPECT_EQ(r.s.each, (std::vector<std::string>{"a", "--quick"}));
  EXPECT_EQ(r.s.isa, "");
  EXPECT_EQ(run({"m"}).s.rows, (std::vector<int>{1, 2}));
}

TEST(BenchProgram, RefusesInOneSentence) {
  const auto refused = [](const std::vector<const char*>& argv) {
    bool worked = false;
    const Ran r = run(argv, [&] { worked = true; });
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(worked);
    return r.err;
  };
  EXPECT_EQ(refused({}), "x_bench: MODEL is missing; see x_bench --help\n");
  EXPECT_EQ(refused({"m", "n"}), "x_bench: unexpected argument \"n\"; see x_bench --help\n");
  EXPECT_EQ(refused({"--thread", "1"}),
            "x_bench: unknown option \"--thread\"; see x_bench --help\n");
  EXPECT_EQ(refused({"m", "--threads"}), "x_bench: --threads needs a value: N\n");
  EXPECT_EQ(refused({"m", "--threads", "9"}), "x_bench: --threads = \"9\" is outside [1, 8]\n");
  EXPECT_EQ(refused({"m", "--threads", "-1"}), "x_bench: --threads = \"-1\" is outside [1, 8]\n");
  EXPECT_EQ(refused({"m", "--threads", "99999999999999999999"}),
            "x_bench: --threads = \"99999999999999999999\" is outside [1, 8]\n");
  EXPECT_EQ(refused({"m", "--threads", "2x"}),
            "x_bench: --threads = \"2x\" is not a whole number\n");
  EXPECT_EQ(refused({"m", "--threads", "2", "--threads", "2"}),
            "x_bench: --threads is given twice\n");
  EXPECT_EQ(refused({"m", "--dtype", "int4"}),
            "x_bench: --dtype = \"int4\" is not one of bf16|f32\n");
  EXPECT_EQ(refused({"m", "--dtype", "bf16|f32"}),
            "x_bench: --dtype = \"bf16|f32\" is not one of bf16|f32\n");
}

TEST(BenchProgram, HelpShowsLimitsAndDefaultsAndWorksNothing) {
  bool worked = false;
  const Ran r = run({"--threads", "2", "--help"}, [&] { worked = true; });
  EXPECT_EQ(r.code, 0);
  EXPECT_FALSE(worked);
  EXPECT_EQ(r.out,
            "x_bench - how fast x is\n\nusage: x_bench MODEL [options]\n\n"
            "  MODEL             a model\n"
            "  --isa NAME        the level (default auto)\n"
            "  --dtype bf16|f32  a type\n"
            "  --threads N       threads (1 to 8, default 2)\n"
            "  --quick           less\n"
            "  --rows N          rows (1 to 9, default 1, 2); may be repeated\n"
            "  --each X          one; may be repeated\n"
            "  --help            this text\n"
            "\nPrints JSON, an object a line. For example:\nbuild/bin/bench/x_bench MODEL\n");
}

TEST(BenchProgram, WhatGoesWrongIsOneSentence) {
  const Ran r = run({"m"}, [] { fail(Code::kNotFound, "no such model"); });
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "x_bench: no such model\n");
  EXPECT_EQ(run({"m"}, [] { throw std::bad_alloc(); }).err,
            "x_bench: there is not enough memory\n");
}

}  // namespace
}  // namespace prefix::bench
