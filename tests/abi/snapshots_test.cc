// The cache in a file: saved by one engine, loaded by another, and every way in which that fails.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

using prefix::testing_support::TempFolder;

Tokens counting(int32_t n) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i * 5 % 131;
  return tokens;
}

struct Answer {
  std::vector<float> values;
  int64_t cached;
};

Answer ask(prefix_engine* engine, const Tokens& tokens, const prefix_options* options = nullptr) {
  const Batch batch = make_batch(engine);
  add_logits(batch, tokens, {0, 1, 2}, options);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
  return {values_of(job, 0), info_of(job, 0).cached_tokens};
}

prefix_snapshot_info save(prefix_engine* engine, const std::string& path,
                          const std::vector<int32_t>& ns = {}) {
  prefix_snapshot_info info{};
  info.struct_size = sizeof(info);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_save(engine, path.data(), path.size(), ns.data(), ns.size(), &info, e);
  });
  return info;
}

prefix_snapshot_info load(prefix_engine* engine, const std::string& path) {
  prefix_snapshot_info info{};
  info.struct_size = sizeof(info);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_load(engine, path.data(), path.size(), &info, e);
  });
  return info;
}

TEST(Snapshots, ALaterEngineStartsWarmWithTheSameBits) {
  const TempFolder folder;
  const std::string path = folder / "cache.snapshot";
  const Tokens prompt = counting(100);
  Answer cold;
  prefix_snapshot_info saved;
  {
    const Engine engine = make_engine();
    cold = ask(engine, prompt);
    EXPECT_EQ(cold.cached, 0);
    saved = save(engine, path);
    EXPECT_EQ(saved.namespaces, 1);
    EXPECT_GE(saved.nodes, 1);
    EXPECT_GE(saved.tokens, 96);
    EXPECT_EQ(saved.bytes, static_cast<int64_t>(std::filesystem::file_size(path)));
    EXPECT_EQ(ask(engine, prompt).values, cold.values) << "the engine goes on";
  }
  const Engine engine = make_engine();
  const prefix_snapshot_info loaded = load(engine, path);
  EXPECT_EQ(loaded.tokens, saved.tokens);
  EXPECT_EQ(loaded.skipped_tokens, 0);
  const Answer warm = ask(engine, prompt);
  EXPECT_GE(warm.cached, 96);
  EXPECT_EQ(warm.values, cold.values);
  // Where it all is already, and without wanting to know.
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_load(engine, path.c_str(), PREFIX_NUL, nullptr, e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_snapshot_save(engine, path.c_str(), PREFIX_NUL, nullptr, 0, nullptr, e);
  });
  EXPECT_EQ(ask(engine, prompt).values, cold.values);
}

TEST(Snapshots, OfSomeNamespaces) {
  const TempFolder folder;
  const Engine engine = make_engine();
  const Options tenant = make_options({{"namespace", "tenant"}});
  ask(engine, counting(64));
  ask(engine, counting(96), tenant);
  int32_t ns = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_find(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  EXPECT_EQ(save(engine, folder / "both").tokens, 64 + 96);
  EXPECT_EQ(save(engine, folder / "twice", {ns, 0, ns}).tokens, 64 + 96);
  const prefix_snapshot_info one = save(engine, folder / "one", {ns});
  EXPECT_EQ(one.tokens, 96);
  EXPECT_EQ(one.namespaces, 1);
  const Engine later = make_engine();
  EXPECT_EQ(load(later, folder / "one").tokens, 96);
  EXPECT_EQ(ask(later, counting(64)).cached, 0);
  EXPECT_GE(ask(later, counting(96), tenant).cached, 95);

  const auto saving = [&](std::vector<int32_t> wanted) {
    return [=, &engine, &folder](prefix_error* e) {
      const std::string path = folder / "never";
      return prefix_snapshot_save(engine, path.data(), path.size(), wanted.data(), wanted.size(),
                                  nullptr, e);
    };
  };
  expect(PREFIX_ERR_NOT_FOUND, saving({0, ns + 1}), {std::to_string(ns + 1)});
  expect(PREFIX_ERR_NOT_FOUND, saving({-1}), {"-1"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_snapshot_save(engine, "x", 1, nullptr, 2, nullptr, e);
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "never"));
}

TEST(Snapshots, PathsThatAreNone) {
  const TempFolder folder;
  const Engine engine = make_engine();
  ask(engine, counting(64));
  const auto both = [&](prefix_status on_save, prefix_status on_load, const char* path,
                        size_t length) {
    expect(on_save, [&](prefix_error* e) {
      return prefix_snapshot_save(engine, path, length, nullptr, 0, nullptr, e);
    });
    expect(on_load,
           [&](prefix_error* e) { return prefix_snapshot_load(engine, path, length, nullptr, e); });
  };
  constexpr prefix_status kInvalid = PREFIX_ERR_INVALID_ARGUMENT;
  both(kInvalid, kInvalid, nullptr, PREFIX_NUL);
  both(kInvalid, kInvalid, nullptr, 3);
  both(kInvalid, kInvalid, "", 0);
  both(kInvalid, kInvalid, "", PREFIX_NUL);
  both(kInvalid, kInvalid, "/tmp/a\0b", 8);
  both(PREFIX_ERR_INVALID_UTF8, PREFIX_ERR_INVALID_UTF8, "/tmp/\xff", PREFIX_NUL);
  const std::string nowhere = folder / "no/such/folder/cache";
  both(PREFIX_ERR_IO, PREFIX_ERR_NOT_FOUND, nowhere.c_str(), PREFIX_NUL);
  // A folder is no file.
  expect(kInvalid, [&](prefix_error* e) {
    return prefix_snapshot_save(engine, folder.path().c_str(), PREFIX_NUL, nullptr, 0, nullptr, e);
  });
  Error error;
  EXPECT_NE(prefix_snapshot_load(engine, folder.path().c_str(), PREFIX_NUL, nullptr, &error),
            PREFIX_OK);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left of what failed";
  expect_works(engine);
}

TEST(Snapshots, OfAnotherModelOrNumberTypeAreIncompatible) {
  const TempFolder folder;
  const std::string path = folder / "cache";
  const Engine engine = make_engine();
  ask(engine, counting(64));
  save(engine, path);
  const auto refused = [&](prefix_engine* by) {
    expect(PREFIX_ERR_INCOMPATIBLE_SNAPSHOT, [&](prefix_error* e) {
      return prefix_snapshot_load(by, path.c_str(), PREFIX_NUL, nullptr, e);
    });
    EXPECT_EQ(ask(by, counting(64)).cached, 0);
  };
  refused(make_engine({{"dtype", "f32"}}));
  const TempFolder another;
  prefix::tools::CheckpointShape shape;
  shape.seed = 2;
  prefix::tools::write_checkpoint(another.path(), shape);
  const Options options = make_options({{"cache_bytes", "16M"}, {"threads", "2"}});
  Engine different;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(another.path().c_str(), PREFIX_NUL, options, different.out(), e);
  });
  refused(different);
}

// Never a crash, never other bits.
TEST(Snapshots, DamagedFilesAreFoundOut) {
  const TempFolder folder;
  const std::string path = folder / "cache", bad = folder / "bad";
  const Tokens prompt = counting(64);
  const Engine engine = make_engine();
  const Answer cold = ask(engine, prompt);
  save(engine, path);
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(whole.size(), 100u);
  const auto format = [&](const std::string& name, const std::string& content) {
    SCOPED_TRACE(name);
    folder.write("bad", content);
    expect(PREFIX_ERR_FORMAT, [&](prefix_error* e) {
      return prefix_snapshot_load(engine, bad.c_str(), PREFIX_NUL, nullptr, e);
    });
  };
  format("empty", "");
  format("text", std::string(5000, 'x'));
  format("its first 40 bytes", whole.substr(0, 40));
  std::string first = whole;
  first[0] ^= 1;
  format("another magic", first);
  // Damage somewhere, or an end that came early: refused as a whole, or as far as it goes.
  const size_t step = whole.size() / (quick() ? 16 : 64);
  for (size_t at = 0; at < 2 * whole.size(); at += step) {
    SCOPED_TRACE(at);
    std::string damaged = whole;
    if (at < whole.size())
      damaged[at] ^= 0x10;
    else
      damaged.resize(at - whole.size());
    folder.write("bad", damaged);
    int64_t freed = 0;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
    prefix_snapshot_info info{};
    info.struct_size = sizeof(info);
    const prefix_status status =
        prefix_snapshot_load(engine, bad.c_str(), PREFIX_NUL, &info, nullptr);
    if (status == PREFIX_OK)
      EXPECT_EQ(info.tokens + info.skipped_tokens, 64);
    else
      EXPECT_TRUE(status == PREFIX_ERR_FORMAT || status == PREFIX_ERR_INCOMPATIBLE_SNAPSHOT)
          << prefix_status_name(status);
    EXPECT_EQ(ask(engine, prompt).values, cold.values);
  }
}

TEST(Snapshots, NeedACacheAndAnOpenEngine) {
  const TempFolder folder;
  const std::string path = folder / "cache";
  const auto both = [&](prefix_engine* engine) {
    expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
      return prefix_snapshot_save(engine, path.c_str(), PREFIX_NUL, nullptr, 0, nullptr, e);
    });
    expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
      return prefix_snapshot_load(engine, path.c_str(), PREFIX_NUL, nullptr, e);
    });
  };
  both(make_engine({{"sharing", "false"}}));
  const Engine closed = make_engine({{"cache_events", "4"}});
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(closed, 0, e); });
  both(closed);
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_cache_next_event(closed, 0, &event, nullptr, 0, nullptr, e);
  });
}

TEST(Snapshots, AreSavedWhileRequestsRun) {
  const TempFolder folder;
  const Engine engine = make_engine();
  ask(engine, counting(640));
  std::thread asking([&] {
    for (int32_t i = 1; i <= 20; ++i) ask(engine, counting(32 * i));
  });
  const std::string path = folder / "cache";
  for (int i = 0; i < 5; ++i) save(engine, path);
  asking.join();
  const Engine later = make_engine();
  EXPECT_GE(load(later, path).tokens, 640);
}

}  // namespace
}  // namespace prefix_abi
