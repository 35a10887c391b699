// Models that the caller feeds, from memory and through functions.
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "abi_support.h"
#include "gguf_model.h"

namespace prefix_abi {
namespace {

using Files = std::map<std::string, std::string>;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Files model_files() {
  Files files;
  for (const char* name : {"config.json", "model.safetensors"})
    files[name] = contents(model_path() + "/" + name);
  return files;
}

Files gguf_files() {
  const std::vector<std::byte> bytes = gguf_model().bytes();
  return {{"some model.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}}};
}

// The same weights in one shard, which an index names.
Files sharded_files() {
  Files files = model_files();
  const std::string whole = files["model.safetensors"];
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  std::string map;
  constexpr std::string_view kEntry = "\":{\"dtype\"";
  for (size_t at = 8; (at = whole.find(kEntry, at)) < 8 + length; at += kEntry.size()) {
    const size_t begin = whole.rfind('"', at - 1) + 1;
    map += (map.empty() ? "\"" : ",\"") + whole.substr(begin, at - begin) + "\":\"1.safetensors\"";
  }
  files.erase("model.safetensors");
  files["1.safetensors"] = whole;
  files["model.safetensors.index.json"] = "{\"weight_map\":{" + map + "}}";
  return files;
}

// Reads a text, and does what a test wants in between.
struct Reader {
  explicit Reader(const std::string& all) : text(all) {}
  static int32_t read(void* user, int64_t offset, void* to, size_t bytes) {
    auto* self = static_cast<Reader*>(user);
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(static_cast<size_t>(offset) + bytes, self->text.size());
    const int call = ++self->calls;
    if (call == self->fails_at) return 5;
    if (call == self->blocks_at) {
      std::unique_lock lock(self->mutex);
      self->blocked = true;
      self->changed.notify_all();
      self->changed.wait(lock, [self] { return !self->blocked; });
    }
    std::memcpy(to, self->text.data() + offset, bytes);
    return 0;
  }
  void wait_until_blocked() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return blocked; });
  }
  void let_go() {
    std::lock_guard lock(mutex);
    blocked = false;
    changed.notify_all();
  }

  const std::string& text;
  std::atomic<int> calls{0};
  int fails_at = 0, blocks_at = 0;  // which call
  std::mutex mutex;
  std::condition_variable changed;
  bool blocked = false;
};

prefix_status add(prefix_source* source, const std::string& name, const std::string& data,
                  prefix_error* e) {
  return prefix_source_add_buffer(source, name.data(), name.size(), data.data(), data.size(), e);
}
prefix_status add(prefix_source* source, const std::string& name, Reader& reader, prefix_error* e) {
  return prefix_source_add_reader(source, name.data(), name.size(),
                                  static_cast<int64_t>(reader.text.size()), &Reader::read, &reader,
                                  e);
}

Source source_of(const Files& files) {
  Source source = make_source();
  for (const auto& [name, data] : files)
    expect(PREFIX_OK, [&, n = name](prefix_error* e) { return add(source, n, files.at(n), e); });
  return source;
}

Engine open(prefix_source* source) {
  const Options options = make_options({{"cache_bytes", "4M"}, {"threads", "1"}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_open_source(source, options, engine.out(), e);
  });
  return engine;
}

void expect_wait(prefix_status wanted, prefix_engine* engine,
                 std::initializer_list<std::string_view> parts = {}, int64_t timeout_ms = -1) {
  expect(
      wanted, [&](prefix_error* e) { return prefix_engine_wait(engine, timeout_ms, nullptr, e); },
      parts);
}

std::vector<float> scores(prefix_engine* engine) {
  const Batch batch = make_batch(engine);
  Tokens tokens;
  for (prefix_token i = 0; i < 80; ++i) tokens.push_back(i % 50);
  add_logits(batch, tokens, {0, 7, 49});
  return values_of(run(engine, batch), 0);
}

Engine engine_of(const std::string& path) {
  const Options options = make_options({{"cache_bytes", "4M"}, {"threads", "1"}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(path.c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

// The same bits, and the same name of the model: a snapshot of one is one of the other.
void expect_same(prefix_engine* engine, prefix_engine* other) {
  expect_wait(PREFIX_OK, other);
  EXPECT_EQ(scores(engine), scores(other));
  const prefix::testing_support::TempFolder folder;
  const std::string path = folder / "snapshot";
  prefix_snapshot_info saved = PREFIX_SNAPSHOT_INFO_INIT, loaded = PREFIX_SNAPSHOT_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_save(engine, path.c_str(), PREFIX_NUL, nullptr, 0, &saved, e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_load(other, path.c_str(), PREFIX_NUL, &loaded, e);
  });
  EXPECT_GT(saved.tokens, 0);
}

TEST(LoadSource, AModelIsTheSameHoweverItIsFed) {
  const Engine engine = engine_of(model_path());
  const Files files = model_files(), sharded = sharded_files();
  expect_same(engine, open(source_of(files)));
  expect_same(engine, open(source_of(sharded)));

  Reader config(files.at("config.json")), weights(files.at("model.safetensors"));
  const Source source = make_source();
  expect(PREFIX_OK, [&](prefix_error* e) { return add(source, "config.json", config, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return add(source, "model.safetensors", weights, e); });
  expect_same(engine, open(source));
  EXPECT_GT(weights.calls, 3);
}

TEST(LoadSource, AGgufFileMayHaveAnyName) {
  const prefix::testing_support::TempFolder folder;
  Files files = gguf_files();
  const std::string path = folder.write("m.gguf", std::string_view(files.begin()->second));
  files["tokenizer.json"] = "not looked at";
  const Engine engine = engine_of(path), fed = open(source_of(files));
  expect_same(engine, fed);
  EXPECT_NE(text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
              return prefix_metrics_text(fed, buf, cap, needed, e);
            }).find("some model.gguf"),
            std::string::npos)
      << "its name in metrics";
}

TEST(LoadSource, TheSourceMayGoFirstAndTheBytesWhenTheLoadHasEnded) {
  const Engine engine = engine_of(model_path());
  auto files = std::make_unique<Files>(model_files());
  Engine fed;
  {
    const Source source = source_of(*files);
    fed = open(source);
    expect(PREFIX_OK, [&](prefix_error* e) { return add(source, "other", std::string("x"), e); });
  }
  expect_wait(PREFIX_OK, fed);
  files.reset();
  EXPECT_EQ(scores(engine), scores(fed));
}

TEST(LoadSource, OneSourceServesManyEngines) {
  const Files files = model_files();
  const Source source = source_of(files);
  const Engine first = open(source), second = open(source);
  expect_wait(PREFIX_OK, first);
  expect_same(first, second);
}

TEST(LoadSource, WhatIsWrongWithAFileIsToldAtOnce) {
  const Source source = make_source();
  const std::string data = "{}";
  const auto refused = [&](prefix_status wanted, const std::string& name, const void* from,
                           size_t size, std::initializer_list<std::string_view> parts) {
    expect(
        wanted,
        [&](prefix_error* e) {
          return prefix_source_add_buffer(source, name.data(), name.size(), from, size, e);
        },
        parts);
  };
  for (const char* name : {"", ".", "..", "a//b", "a/", "a/../b", "/etc/passwd", "a\\b", "a\nb"})
    refused(PREFIX_ERR_INVALID_ARGUMENT, name, data.data(), 2, {"name"});
  refused(PREFIX_ERR_INVALID_ARGUMENT, std::string(256, 'x'), data.data(), 2, {"255 bytes"});
  refused(PREFIX_ERR_INVALID_UTF8, "\xff", data.data(), 2, {});
  refused(PREFIX_ERR_INVALID_ARGUMENT, "a", nullptr, 2, {"data is NULL"});
  refused(PREFIX_ERR_OUT_OF_RANGE, "a", data.data(), SIZE_MAX, {"data"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_source_add_reader(source, "a", 1, 2, nullptr, nullptr, e);
  });
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_source_add_reader(source, "a", 1, -1, &Reader::read, nullptr, e);
         },
         {"-1"});

  Engine none;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_engine_open_source(source, nullptr, none.out(), e); },
         {"no files"});
  EXPECT_EQ(none, nullptr);
  expect(PREFIX_OK, [&](prefix_error* e) { return add(source, "a", data, e); });
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return add(source, "a", data, e); },
         {"\"a\"", "already"});
}

TEST(LoadSource, WhatIsWrongWithAModelIsToldByWait) {
  const auto refused = [](prefix_status wanted, const Files& files,
                          std::initializer_list<std::string_view> parts) {
    expect_wait(wanted, open(source_of(files)), parts);
  };
  refused(PREFIX_ERR_NOT_FOUND, {{"a", "b"}}, {"the source", "config.json", ".gguf"});
  refused(PREFIX_ERR_INVALID_ARGUMENT, {{"a.gguf", ""}, {"b.gguf", ""}}, {"2 .gguf files"});
  refused(PREFIX_ERR_FORMAT, {{"a.gguf", ""}}, {"a.gguf", "GGUF"});
  Files files = model_files();
  files["config.json"] = "{";
  refused(PREFIX_ERR_FORMAT, files, {"\"config.json\""});
  files = model_files();
  files.erase("model.safetensors");
  refused(PREFIX_ERR_NOT_FOUND, files, {"the source", "neither model.safetensors nor"});
  files["model.safetensors"] = model_files()["model.safetensors"];
  files["model.safetensors"].pop_back();
  refused(PREFIX_ERR_FORMAT, files, {"\"model.safetensors\""});
  files = sharded_files();
  files.erase("1.safetensors");
  refused(PREFIX_ERR_NOT_FOUND, files, {"\"1.safetensors\""});
}

TEST(LoadSource, AReaderMayFailAtAnyCall) {
  const Files files = model_files();
  const auto load = [&](int fails_at) {
    Reader reader(files.at("model.safetensors"));
    reader.fails_at = fails_at;
    Files rest = files;
    rest.erase("model.safetensors");
    const Source source = source_of(rest);
    expect(PREFIX_OK, [&](prefix_error* e) { return add(source, "model.safetensors", reader, e); });
    const Engine engine = open(source);
    if (fails_at == 0)
      expect_wait(PREFIX_OK, engine);
    else
      expect_wait(PREFIX_ERR_IO, engine, {"\"model.safetensors\"", "answered 5", "bytes at byte"});
    return reader.calls.load();
  };
  const int calls = load(0);
  for (int at = 1; at <= calls; at += quick() ? 1 + calls / 5 : 1) load(at);
}

// A load that a test can hold in the middle of one file; the other lies in pages that can go.
class BlockedLoad {
 public:
  explicit BlockedLoad(const std::string& held, int call) : reader_(files_.at(held)) {
    reader_.blocks_at = call;
    const std::string other = held == "config.json" ? "model.safetensors" : "config.json";
    size_ = files_.at(other).size();
    pages_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(pages_, MAP_FAILED);
    std::memcpy(pages_, files_.at(other).data(), size_);
    const Source source = make_source();
    expect(PREFIX_OK, [&](prefix_error* e) { return add(source, held, reader_, e); });
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_source_add_buffer(source, other.data(), other.size(), pages_, size_, e);
    });
    engine = open(source);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_notify(engine, ended_, 9, e); });
    reader_.wait_until_blocked();
  }
  ~BlockedLoad() {
    let_go();
    if (pages_) munmap(pages_, size_);
  }
  BlockedLoad(const BlockedLoad&) = delete;
  BlockedLoad& operator=(const BlockedLoad&) = delete;

  void lose_pages() { munmap(std::exchange(pages_, nullptr), size_); }
  // The load goes on, and has ended when this returns.
  void let_go() {
    if (std::exchange(over_, true)) return;
    reader_.let_go();
    int64_t tag = 0;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_next(ended_, -1, &tag, e); });
    EXPECT_EQ(tag, 9);
  }
  int calls() const { return reader_.calls; }

  Engine engine;

 private:
  const Files files_ = model_files();
  Reader reader_;
  Queue ended_ = make_queue();
  void* pages_ = nullptr;
  size_t size_ = 0;
  bool over_ = false;
};

TEST(LoadSource, ALoadCanBeSeenInItsMiddle) {
  BlockedLoad load("model.safetensors", 5);
  double fraction = -1;
  expect(PREFIX_ERR_TIMEOUT,
         [&](prefix_error* e) { return prefix_engine_wait(load.engine, 0, &fraction, e); });
  EXPECT_GE(fraction, 0);
  EXPECT_LT(fraction, 1);
  EXPECT_EQ(prefix_engine_state(load.engine), PREFIX_ENGINE_LOADING);
  load.let_go();
  expect_wait(PREFIX_OK, load.engine);
  expect_works(load.engine);
}

TEST(LoadSource, AShutdownInTheMiddleReadsNoFurther) {
  BlockedLoad load("model.safetensors", 5);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(load.engine, 0, e); });
  expect_wait(PREFIX_ERR_TIMEOUT, load.engine, {}, 0);
  EXPECT_EQ(prefix_engine_state(load.engine), PREFIX_ENGINE_DRAINING);
  load.let_go();
  EXPECT_EQ(load.calls(), 5);
  expect_wait(PREFIX_ERR_CANCELLED, load.engine);
  EXPECT_EQ(prefix_engine_state(load.engine), PREFIX_ENGINE_CLOSED);
}

// The weights would be read next.
TEST(LoadSource, AfterAShutdownOrAReleaseNoMemoryIsTouched) {
  for (const bool release : {false, true}) {
    BlockedLoad load("config.json", 1);
    if (release)
      load.engine = Engine();
    else
      expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(load.engine, 0, e); });
    load.lose_pages();
    load.let_go();
    EXPECT_EQ(load.calls(), 1);
  }
}

// A batch holds its engine, and so the load: memory may go when both have gone.
TEST(LoadSource, AfterAReleaseABatchLetsTheLoadGoOn) {
  {
    BlockedLoad load("model.safetensors", 5);
    const Batch batch = make_batch(load.engine);
    load.engine = Engine();
    load.let_go();
    EXPECT_GT(load.calls(), 5) << "the batch is no reason to read on";
  }
  BlockedLoad load("config.json", 1);
  Batch batch = make_batch(load.engine);
  load.engine = Engine();
  batch = Batch();
  load.lose_pages();
  load.let_go();
  EXPECT_EQ(load.calls(), 1);
}

}  // namespace
}  // namespace prefix_abi
