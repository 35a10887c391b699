// The library in a program that speaks another language: the locales of C and of C++ are the
// host's, and change neither what is read nor what is written.
#include <dlfcn.h>

#include <clocale>

#include "abi_support.h"
#include "support/grouped_locale.h"

namespace {

thread_local bool german = false;

}  // namespace

// In place of the system's, which may have no locale but C installed.
// The library finds it only where the program shows it.
extern "C" [[gnu::visibility("default")]] lconv* localeconv() noexcept {
  using Function = lconv*();
  static auto* const kSystem = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "localeconv"));
  if (!german) return kSystem();
  static char comma[] = ",", point[] = ".";
  thread_local lconv answer;
  answer = *kSystem();
  answer.decimal_point = comma;
  answer.thousands_sep = point;
  return &answer;
}

namespace prefix_abi {
namespace {

TEST(Locale, OptionsInJsonHaveAPoint) {
  const Options options = make_options({});
  const std::string_view json = R"({"temperature": 0.5, "top_p": 1.25e-1})";
  german = true;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_json(options, json.data(), json.size(), e);
  });
  german = false;
  EXPECT_EQ(text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
              return prefix_options_json(options, buf, cap, needed, e);
            }),
            R"({"temperature":0.5,"top_p":0.125})");
}

TEST(Locale, AnEngineRunsAndWritesNumbersWithoutSeparators) {
  const prefix::testing_support::GroupedLocale grouped('.');
  const Engine engine = make_engine({{"cache_events", "100"}});
  const Batch batch = make_batch(engine);
  add_logits(batch, Tokens(400, 1));
  add_logits(batch, {1000000});
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
  EXPECT_NE(message_of(job, 1).find("1000000"), std::string::npos) << message_of(job, 1);
  const std::string events = text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_cache_dump_events(engine, buf, cap, needed, e);
  });
  EXPECT_TRUE(events.ends_with("{\"next\":12}\n")) << events;
  const std::string metrics = text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_metrics_text(engine, buf, cap, needed, e);
  });
  EXPECT_NE(metrics.find("block_size=\"32\""), std::string::npos);
}

}  // namespace
}  // namespace prefix_abi
