// Adapters through the C interface: by a name, by a namespace, refused with a sentence.
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

}  // namespace
}  // namespace prefix_abi
