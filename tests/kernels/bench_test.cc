// The benchmark that decides on a GPU (bench/gpu), at tiny sizes on the emulator: it runs to its
// end, and each of its lines has figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benches.h"
#include "blocker.h"
#include "kernels/gpu_support.h"
#include "timing.h"

namespace prefix::bench {
namespace {

Effort tiny() {
  Effort effort;
  effort.repeats = 1;
  effort.budget_us = 0;
  effort.cold_bytes = 1;
  effort.layers = 2;
  effort.blocker_rows = 4;
  effort.blocker_n = effort.blocker_k = 64;
  return effort;
}

std::vector<nlohmann::json> lines_of(const std::function<void()>& run) {
  testing::internal::CaptureStdout();
  run();
  std::istringstream text(testing::internal::GetCapturedStdout());
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}
nlohmann::json printed(const std::function<void()>& run) {
  const std::vector<nlohmann::json> lines = lines_of(run);
  EXPECT_EQ(lines.size(), 1u);
  return lines.at(0);
}

class GpuBench : public ::testing::Test {
 protected:
  const std::unique_ptr<ops::GpuDevice> device_ = ops::testing::emulated_device(ops::DType::kBf16);
  const Blocker blocker_{*device_, tiny()};
};

TEST_F(GpuBench, SaysHowManyClustersRunAtOnce) {
  const nlohmann::json line = printed([&] { bench_device(*device_); });
  EXPECT_EQ(line["bench"], "device");
  EXPECT_EQ(line["name"], "emulator");
  EXPECT_EQ(line["clusters"].size(), std::size(ops::gpu::Properties{}.clusters));
  EXPECT_EQ(line["clusters"][0], 4);
}

TEST_F(GpuBench, AttentionWithAndWithoutSharing) {
  const AttentionCase decode{"decode 3x64", 3, 64, 40, 1, 4, 2};
  double bytes[2];
  for (const bool shared : {true, false}) {
    const nlohmann::json line =
        printed([&] { bench_attention(*device_, decode, shared, blocker_, tiny()); });
    EXPECT_EQ(line["shape"], "decode 3x64");
    EXPECT_EQ(line["heads"], "4/2");
    EXPECT_EQ(line["shared"], shared);
    EXPECT_EQ(line["layers"], 2);
    EXPECT_EQ(line["flops"], 4.0 * 3 * 104 * 4 * 128);
    for (const char* time : {"us_wall", "plan_us"}) EXPECT_GT(line[time], 0) << time;
    EXPECT_TRUE(line.contains("us") && line.contains("us_hot"));
    bytes[shared ? 0 : 1] = line["bytes"];
  }
  EXPECT_EQ(bytes[1] - bytes[0], 2.0 * 64 * 2 * 128 * 4);  // the other two read the prefix, too
}

TEST_F(GpuBench, SuffixesAndAPrefixAlone) {
  for (const AttentionCase& c : {AttentionCase{"causal", 1, 0, 70, 70, 4, 2},
                                 AttentionCase{"suffix", 3, 32, 40, 40, 4, 2}}) {
    const auto line = printed([&] { bench_attention(*device_, c, true, blocker_, tiny()); });
    EXPECT_GT(line["us_wall"], 0);
    EXPECT_EQ(line["flops"], 4.0 * c.b * (c.s * c.p + c.s * (c.s + 1) / 2) * c.heads * 128);
  }
}

TEST_F(GpuBench, StepsOfClustersAreTold) {
  ops::GpuDevice device(std::make_unique<ops::gpu::EmulatedRuntime>(), {});
  const auto line = printed([&] {
    bench_attention(device, {"decode 3x64", 3, 64, 40, 1, 4, 2}, true, Blocker(device, tiny()),
                    tiny(), "hopper");
  });
  EXPECT_EQ(line["kernel"], "hopper");
  EXPECT_EQ(line["cluster"], 2);
}

TEST_F(GpuBench, Products) {
  for (const bool adds : {false, true}) {
    const auto line =
        printed([&] { bench_product(*device_, {"tiny", "o", 64, 96, adds}, 5, blocker_, tiny()); });
    EXPECT_EQ(line["bench"], "gemm");
    EXPECT_EQ(line["model"], "tiny");
    EXPECT_EQ(line["rows"], 5);
  }
}

TEST_F(GpuBench, EngineByATinyModel) {
  const ops::testing::EmulatedCuda cuda;
  const auto lines = lines_of([] { bench_engine("tiny", "cuda", {2, 40, 5, 3}); });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["bench"], "engine");
  EXPECT_GT(lines[0]["shared_ms"], 0);
  EXPECT_GT(lines[0]["unshared_ms"], 0);
  EXPECT_EQ(lines[1]["bench"], "decode");
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line["model"], "tiny");
    EXPECT_EQ(line["shape"], "2,40,5");
  }
  EXPECT_TRUE(lines[1].contains("shared_step_ms") && lines[1].contains("unshared_step_ms"));
}

// A device that takes 100 us a call and a host that takes `launch` us to queue one.
Times times_of(double launch) {
  double now = 0, idle_at = 0;  // of the host; when the device will have done everything
  const auto queue = [&](double host, double device) {
    now += host;
    idle_at = std::max(idle_at, now) + device;
  };
  const DeviceClock clock([&] { queue(launch, 5000); }, [&] { now = std::max(now, idle_at) + 7; },
                          3, 2000, [&] { return now; });
  return clock.measure([&](int) { queue(launch, 100); });
}

TEST_F(GpuBench, TheClockFindsTheTimeOnTheDevice) {
  const Times fast = times_of(1);
  EXPECT_NEAR(fast.us, 100, 1e-6);
  EXPECT_GT(fast.wall_us, 100);  // a share of the wait
  EXPECT_FALSE(fast.launch_bound);
}

TEST_F(GpuBench, TheClockSaysWhereLaunchingDecides) {
  const Times slow = times_of(1500);
  EXPECT_TRUE(slow.launch_bound);
  EXPECT_GT(slow.us, 100);
}

}  // namespace
}  // namespace prefix::bench
