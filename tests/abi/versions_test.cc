// Versions, features, statuses and devices: what a program asks before it does anything.
#include <link.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "abi_support.h"

namespace prefix_abi {
namespace {

TEST(Versions, AgreeWithEachOther) {
  EXPECT_EQ(prefix_abi_version(), PREFIX_ABI_VERSION);
  const int32_t v = prefix_version();
  EXPECT_EQ(std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
                std::to_string(v % 100),
            prefix_version_string());
  const std::string info = prefix_build_info();
  EXPECT_NE(info.find(prefix_version_string()), std::string::npos);
  EXPECT_EQ(info.find('\n'), std::string::npos) << "one line";
}

// "One line for bug reports: version, compiler, instruction-set level."
TEST(Versions, BuildInfoNamesTheInstructionSet) {
  prefix_device_details device{};
  device.struct_size = sizeof(device);
  std::string chosen;
  if (prefix_device_info(0, &device, nullptr) == PREFIX_OK) chosen = device.level;
  EXPECT_FALSE(chosen.empty());
  EXPECT_NE(std::string(prefix_build_info()).find(chosen), std::string::npos)
      << prefix_build_info();
}

// Every thread of a program that is linked with the library pays for these bytes, on its stack.
TEST(Versions, ThreadsOfTheHostPayForNoBuffers) {
  const auto largest = [](dl_phdr_info* object, size_t, void* bytes) {
    if (std::string_view(object->dlpi_name).find("libprefix.so") == std::string_view::npos)
      return 0;
    for (int i = 0; i < object->dlpi_phnum; ++i)
      if (object->dlpi_phdr[i].p_type == PT_TLS)
        *static_cast<size_t*>(bytes) =
            std::max<size_t>(*static_cast<size_t*>(bytes), object->dlpi_phdr[i].p_memsz);
    return 0;
  };
  size_t bytes = 0;
  dl_iterate_phdr(largest, &bytes);
  EXPECT_GT(bytes, 0u) << "the library is not found";
  EXPECT_LT(bytes, 4096u);
}

TEST(Versions, FeaturesAreListedAndFound) {
  std::set<std::string> names;
  for (size_t i = 0; i < prefix_feature_count(); ++i) {
    const char* const name = prefix_feature_name(i);
    ASSERT_NE(name, nullptr) << i;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(prefix_has_feature(name, PREFIX_NUL), 1);
    EXPECT_EQ(prefix_has_feature((std::string(name) + "x").c_str(), std::strlen(name)), 1);
    EXPECT_EQ(prefix_has_feature(name, std::strlen(name) - 1), 0) << name;
  }
  for (const char* promised : {"cpu", "bf16", "f32", "gguf", "safetensors"})
    EXPECT_EQ(names.count(promised), 1u) << promised;
  EXPECT_EQ(prefix_feature_name(prefix_feature_count()), nullptr);
  EXPECT_EQ(prefix_feature_name(PREFIX_NUL), nullptr);
  EXPECT_EQ(prefix_has_feature("quantum", PREFIX_NUL), 0);
  EXPECT_EQ(prefix_has_feature("", 0), 0);
  EXPECT_EQ(prefix_has_feature(nullptr, 0), 0);
  EXPECT_EQ(prefix_has_feature("cpu", PREFIX_NUL - 1), 0);
}

TEST(Versions, StatusesHaveNames) {
  const std::pair<prefix_status, const char*> all[] = {
#define STATUS(name) {name, #name}
      STATUS(PREFIX_OK),
      STATUS(PREFIX_ERR_INVALID_ARGUMENT),
      STATUS(PREFIX_ERR_INVALID_UTF8),
      STATUS(PREFIX_ERR_UNKNOWN_OPTION),
      STATUS(PREFIX_ERR_OUT_OF_RANGE),
      STATUS(PREFIX_ERR_STRUCT_TOO_OLD),
      STATUS(PREFIX_ERR_BUFFER_TOO_SMALL),
      STATUS(PREFIX_ERR_MISUSE),
      STATUS(PREFIX_ERR_FORKED),
      STATUS(PREFIX_ERR_NOT_FOUND),
      STATUS(PREFIX_ERR_IO),
      STATUS(PREFIX_ERR_FORMAT),
      STATUS(PREFIX_ERR_UNSUPPORTED_MODEL),
      STATUS(PREFIX_ERR_UNSUPPORTED_DEVICE),
      STATUS(PREFIX_ERR_INCOMPATIBLE_SNAPSHOT),
      STATUS(PREFIX_ERR_PROMPT_TOO_LONG),
      STATUS(PREFIX_ERR_NOT_FINITE),
      STATUS(PREFIX_ERR_OUT_OF_MEMORY),
      STATUS(PREFIX_ERR_OUT_OF_DEVICE_MEMORY),
      STATUS(PREFIX_ERR_CACHE_FULL),
      STATUS(PREFIX_ERR_QUEUE_FULL),
      STATUS(PREFIX_ERR_TIMEOUT),
      STATUS(PREFIX_ERR_CANCELLED),
      STATUS(PREFIX_ERR_DEADLINE),
      STATUS(PREFIX_ERR_DEVICE_LOST),
      STATUS(PREFIX_ERR_ENGINE_FAILED),
      STATUS(PREFIX_ERR_NO_EVENT),
      STATUS(PREFIX_ERR_INTERNAL),
#undef STATUS
  };
  const std::set<prefix_status> retryable = {PREFIX_ERR_QUEUE_FULL, PREFIX_ERR_TIMEOUT,
                                             PREFIX_ERR_NO_EVENT};
  std::set<prefix_status> known;
  for (const auto& [status, name] : all) {
    EXPECT_STREQ(prefix_status_name(status), name);
    EXPECT_EQ(prefix_status_is_retryable(status), retryable.count(status) ? 1 : 0) << name;
    known.insert(status);
  }
  for (prefix_status s = -5; s < 1100; ++s) {
    if (known.count(s)) continue;
    EXPECT_STREQ(prefix_status_name(s), "PREFIX_ERR_UNKNOWN") << s;
  }
  for (const prefix_status s : {INT32_MIN, INT32_MAX})
    EXPECT_STREQ(prefix_status_name(s), "PREFIX_ERR_UNKNOWN");
}

TEST(Versions, DevicesSayWhetherTheyCanBeUsed) {
  int cpus = 0;
  ASSERT_GT(prefix_device_count(), 0u);
  for (size_t i = 0; i < prefix_device_count(); ++i) {
    prefix_device_details device{};
    device.struct_size = sizeof(device);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_device_info(i, &device, e); });
    ASSERT_NE(device.name, nullptr);
    EXPECT_EQ(*device.reason == 0, device.available == 1) << device.level << ": " << device.reason;
    EXPECT_EQ(device.chosen, i == 0) << "option device is cpu unless it is set";
    EXPECT_EQ(std::string(device.kind), i == 0 ? "cpu" : "cuda");
    if (i > 0) continue;
    ++cpus;
    EXPECT_EQ(prefix_has_feature(device.level, PREFIX_NUL), 1) << device.level;
    EXPECT_EQ(device.available, 1);
    EXPECT_GT(device.threads, 0);
    EXPECT_GT(device.total_bytes, device.free_bytes);
    EXPECT_GT(device.free_bytes, 0);
  }
  EXPECT_EQ(cpus, 1);
  prefix_device_details device{};
  device.struct_size = sizeof(device);
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return prefix_device_info(99, &device, e); }, {"99"});
}

// As /proc/cpuinfo has it; a processor that it does not name has no name.
TEST(Versions, TheCpuHasItsMakersName) {
  prefix_device_details cpu{};
  cpu.struct_size = sizeof(cpu);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_device_info(0, &cpu, e); });
  std::ifstream in("/proc/cpuinfo");
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(*cpu.name != 0, all.find("model name") != std::string::npos);
  EXPECT_NE(all.find(cpu.name), std::string::npos) << cpu.name;
}

// Option isa takes every level; an engine only those that this machine has, which are features, and
// for the others it says what is missing.
TEST(Versions, LevelsThatCannotRunSayWhy) {
  for (const char* level : {"amx", "avx512_bf16", "avx512", "avx2", "neon", "scalar"}) {
    SCOPED_TRACE(level);
    const Options options = make_options({{"isa", level}, {"cache_bytes", "1M"}});
    Engine engine;
    Error error;
    const prefix_status status =
        prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), &error);
    const bool there = prefix_has_feature(level, PREFIX_NUL) == 1;
    EXPECT_EQ(status, there ? PREFIX_OK : PREFIX_ERR_UNSUPPORTED_DEVICE) << error.message;
    EXPECT_TRUE(there || std::string_view(error.message).find(level) != std::string_view::npos);
  }
  EXPECT_EQ(prefix_has_feature("scalar", PREFIX_NUL), 1);
}

}  // namespace
}  // namespace prefix_abi
