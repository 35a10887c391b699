// Model files that another program cuts while they are loaded. Whatever is read then, loading ends
// with a status that names the file; with mapped files it ended the process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "model/files/model_files.h"
#include "model/model.h"
#include "ops/devices.h"
#include "random_checkpoint.h"
#include "support/build_folder.h"
#include "support/cases.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;
using testing_support::cases;
using testing_support::expect_error;
using testing_support::TempFolder;

// A model on disk that every round begins with whole.
struct Subject {
  std::string path;                // for open_model()
  std::vector<std::string> files;  // that may be cut
};

class CutFile : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (GetParam() == "gguf") {
      const std::string whole =
          testing_support::build_folder() + "/golden-models/llama-gguf-q8_0.gguf";
      if (!fs::exists(whole)) GTEST_SKIP() << whole << " is missing; tools/golden writes it";
      fs::copy_file(whole, folder_ / "model.gguf");
      subject_ = {folder_ / "model.gguf", {folder_ / "model.gguf"}};
    } else {
      tools::write_checkpoint(folder_.path(), {});
      folder_.write("generation_config.json", std::string_view("{\"eos_token_id\":[5,6]}"));
      subject_ = {folder_.path(), {folder_ / "model.safetensors"}};
      if (GetParam() == "shards") make_shards();
    }
    fs::copy(folder_.path(), backup_.path(), fs::copy_options::recursive);
    device_ = ops::make_device({.name = "cpu", .threads = std::make_shared<Threads>(2)});
  }

  void make_shards() {
    std::string map;
    for (const std::string& name : open_model(folder_.path()).tensors->names())
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"one.safetensors\"";
    fs::rename(folder_ / "model.safetensors", folder_ / "one.safetensors");
    folder_.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
    subject_.files = {folder_ / "one.safetensors"};
  }

  // In place, as a program does that writes a file anew.
  void restore() {
    for (const auto& entry : fs::directory_iterator(backup_.path()))
      fs::copy_file(entry.path(), folder_ / entry.path().filename().string(),
                    fs::copy_options::overwrite_existing);
  }

  void load(const Model::Progress& progress) {
    Model(open_model(subject_.path), *device_, 64, progress);
  }

  TempFolder folder_, backup_;
  Subject subject_;
  std::unique_ptr<ops::Device> device_;
};

// At every stage of loading, to every kind of length: always a refusal, also when what was read by
// then would do.
TEST_P(CutFile, AtEveryStage) {
  const std::string& file = subject_.files.front();
  const auto size = fs::file_size(file);
  int stages = 0;
  load([&](double) { return ++stages > 0; });
  EXPECT_GE(stages, 4);
  for (int stage = 0; stage <= stages; ++stage) {
    for (const uintmax_t left : {uintmax_t{0}, uintmax_t{1}, size / 7, size / 2, size - 1}) {
      restore();
      ModelFiles files = open_model(subject_.path);
      if (stage == 0) fs::resize_file(file, left);
      int at = 0;
      expect_error(Code::kIo, {file, cat("had ", size, " bytes"), cat("has ", left, " now")}, [&] {
        Model(std::move(files), *device_, 64, [&](double) {
          if (++at == stage) fs::resize_file(file, left);
          return true;
        });
      });
    }
  }
}

// A thread cuts one of all files at some moment. What was cut before it was opened is refused for
// what it then is.
TEST_P(CutFile, AtAnyMoment) {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder_.path())) all.push_back(entry.path());
  std::mt19937 random(7);
  int refused = 0, loaded = 0;
  for (int round = 0; round < cases(400); ++round) {
    restore();
    const std::string& file = round % 2 == 0 ? subject_.files.front() : all[random() % all.size()];
    const uintmax_t left = random() % fs::file_size(file);
    const uint32_t wait = random() % 20000;
    std::atomic<bool> go = false;
    std::thread cutter([&] {
      while (!go) std::this_thread::yield();
      for (std::atomic<uint32_t> i = 0; i < wait * (round % 64); ++i) {
      }
      fs::resize_file(file, left);
    });
    go = true;
    try {
      load(nullptr);
      ++loaded;
    } catch (const Error& e) {
      ++refused;
      const bool expected =
          e.code() == Code::kIo || e.code() == Code::kFormat || e.code() == Code::kUnsupportedModel;
      EXPECT_TRUE(expected) << e.message();
      EXPECT_NE(e.message().find(folder_.path()), std::string::npos) << e.message();
    }
    cutter.join();
  }
  EXPECT_GT(refused, 0);
  RecordProperty("refused", std::to_string(refused));
  RecordProperty("loaded", std::to_string(loaded));
}

INSTANTIATE_TEST_SUITE_P(Formats, CutFile, testing::Values("gguf", "safetensors", "shards"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace prefix
