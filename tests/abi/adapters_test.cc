// Adapters through the C interface: by a name, by a namespace, refused with a sentence.
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>

#include "abi_support.h"
#include "random_adapter.h"

namespace prefix_abi {
namespace {

void load(prefix_engine* engine, const char* name, const std::string& path) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_adapter_load(engine, name, PREFIX_NUL, path.c_str(), path.size(), e);
  });
}

std::string list_of(const prefix_engine* engine) {
  return text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_adapters_json(engine, buf, cap, needed, e);
  });
}

TEST(Adapters, AreNamedByRequests) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::write_adapter(folder.path(), {}, {});
  const Engine engine = make_engine();
  EXPECT_EQ(list_of(engine), "[]");
  load(engine, "one", folder.path());
  EXPECT_NE(list_of(engine).find("\"name\":\"one\""), std::string::npos);
  int32_t ns = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_adapter_namespace(engine, 0, "one", PREFIX_NUL, &ns, e);
  });
  EXPECT_GT(ns, 0);

  const Options with = make_options({{"adapter", "one"}});
  const Options by_number = make_options({{"namespace_id", std::to_string(ns).c_str()}});
  const Options other = make_options({{"adapter", "two"}});
  const Tokens tokens = {1, 2, 3, 4, 5};
  const Batch batch = make_batch(engine);
  for (const prefix_options* options :
       {static_cast<prefix_options*>(nullptr), static_cast<prefix_options*>(with),
        static_cast<prefix_options*>(by_number), static_cast<prefix_options*>(other)})
    add_logits(batch, tokens, {0, 1, 2}, options);
  const Job job = run(engine, batch);
  EXPECT_NE(values_of(job, 0), values_of(job, 1));
  EXPECT_EQ(values_of(job, 1), values_of(job, 2));
  EXPECT_EQ(info_of(job, 3).status, PREFIX_ERR_NOT_FOUND);
  EXPECT_EQ(message_of(job, 3), "adapter \"two\" is not loaded");

  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_adapter_unload(engine, "one", PREFIX_NUL, e); });
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) { return prefix_adapter_unload(engine, "one", PREFIX_NUL, e); },
         {"\"one\""});
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) {
           return prefix_adapter_load(engine, "x", PREFIX_NUL, "/no/such/folder", PREFIX_NUL, e);
         },
         {"/no/such/folder", "adapter_config.json"});
  expect_works(engine);
}

// Text of a file that functions read; the call with number `fails_at` fails.
struct Reader {
  static int32_t read(void* user, int64_t offset, void* to, size_t bytes) {
    auto* const self = static_cast<Reader*>(user);
    if (++self->calls == self->fails_at) return 7;
    std::memcpy(to, self->text.data() + offset, bytes);
    return 0;
  }
  std::string text;
  std::atomic<int> calls = 0;  // several threads read at once
  int fails_at = 0;
};

struct AdapterSource {
  explicit AdapterSource(const std::string& folder)
      : config(read(folder + "/adapter_config.json")),
        tensors{read(folder + "/adapter_model.safetensors")} {}

  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Source source(bool with_config = true, bool with_tensors = true) {
    Source made = make_source();
    if (with_config)
      expect(PREFIX_OK, [&](prefix_error* e) {
        return prefix_source_add_buffer(made, "adapter_config.json", PREFIX_NUL, config.data(),
                                        config.size(), e);
      });
    if (with_tensors)
      expect(PREFIX_OK, [&](prefix_error* e) {
        return prefix_source_add_reader(made, "adapter_model.safetensors", PREFIX_NUL,
                                        static_cast<int64_t>(tensors.text.size()), &Reader::read,
                                        &tensors, e);
      });
    return made;
  }

  std::string config;
  Reader tensors;
};

TEST(Adapters, FromASourceAreTheSame) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::write_adapter(folder.path(), {}, {});
  AdapterSource files(folder.path());
  const Engine engine = make_engine();
  {
    const Source source = files.source();
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_adapter_load_source(engine, "fed", PREFIX_NUL, source, e);
    });
  }
  // Not read afterwards.
  const int calls = files.tensors.calls;
  EXPECT_GT(calls, 0);
  files.config.assign(files.config.size(), 'x');
  files.tensors.text.assign(files.tensors.text.size(), 'x');
  const Options with = make_options({{"adapter", "fed"}});
  const auto result = [&](prefix_engine* of, const prefix_options* options) {
    const Batch batch = make_batch(of);
    add_logits(batch, {1, 2, 3, 4, 5}, {0, 1, 2}, options);
    return values_of(run(of, batch), 0);
  };
  const auto fed = result(engine, with);
  EXPECT_EQ(files.tensors.calls, calls);
  const Engine other = make_engine();
  load(other, "fed", folder.path());
  EXPECT_EQ(result(other, with), fed);
  EXPECT_NE(result(other, nullptr), fed);
  EXPECT_EQ(list_of(engine), list_of(other)) << "by their content they are one";
}

TEST(Adapters, WhatASourceLacksIsTold) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::write_adapter(folder.path(), {}, {});
  const Engine engine = make_engine();
  const auto refused = [&](prefix_status status, const Source& source,
                           std::initializer_list<std::string_view> parts) {
    expect(
        status,
        [&](prefix_error* e) {
          return prefix_adapter_load_source(engine, "fed", PREFIX_NUL, source, e);
        },
        parts);
  };
  AdapterSource files(folder.path());
  refused(PREFIX_ERR_INVALID_ARGUMENT, files.source(false, false), {"the source has no files"});
  refused(PREFIX_ERR_NOT_FOUND, files.source(false, true), {"adapter_config.json"});
  refused(PREFIX_ERR_NOT_FOUND, files.source(true, false), {"adapter_model.safetensors"});
  for (int call = 1;; ++call) {
    AdapterSource failing(folder.path());
    failing.tensors.fails_at = call;
    const Source source = failing.source();
    prefix_error err = PREFIX_ERROR_INIT;
    const prefix_status status =
        prefix_adapter_load_source(engine, "fed", PREFIX_NUL, source, &err);
    if (failing.tensors.calls < call) {
      EXPECT_EQ(status, PREFIX_OK) << err.message;
      EXPECT_GT(call, 3);
      break;
    }
    EXPECT_EQ(status, PREFIX_ERR_IO);
    EXPECT_NE(std::string(err.message).find("its reader answered 7"), std::string::npos)
        << err.message;
    EXPECT_EQ(list_of(engine), "[]");
  }
  files.config = "{}";
  files.config.resize(files.config.size() - 1);
  refused(PREFIX_ERR_FORMAT, files.source(), {"adapter_config.json"});
  expect_works(engine);
}

}  // namespace
}  // namespace prefix_abi
