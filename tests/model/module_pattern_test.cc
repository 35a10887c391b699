// Keys of rank_pattern and alpha_pattern: which modules they fit, as PEFT has it,
// and what is refused.
#include "model/config/module_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

constexpr const char* kModule = "model.layers.11.self_attn.q_proj";

// re.match(rf"(.*\.)?({pattern})$", kModule) of Python.
TEST(ModulePattern, FitsTheNameOrItsEnd) {
  for (const char* pattern : {"q_proj",
                              "self_attn.q_proj",
                              kModule,
                              "layers.11.self_attn.q_proj",
                              "self.attn.q_proj",
                              "^model.layers.11.self_attn.q_proj",
                              "^model\\.layers\\.11\\.self_attn\\.q_proj$",
                              ".*",
                              ".*\\.q_proj",
                              ".*q_proj",
                              "layers\\.\\d+\\..*",
                              "layers\\.(1|11)\\.self_attn\\.(q|k)_proj",
                              "layers\\.1[0-5]\\.self_attn\\.[qkv]_proj",
                              "(k_proj|q_proj)",
                              "k_proj|q_proj",
                              "[^k]_proj",
                              "(?:q|v)_proj",
                              "(?P<side>q|v)_proj",
                              "\\w+",
                              "q_pro?j",
                              "q_pro{1}j",
                              "1{2}.self_attn.q_proj",
                              "1{1,}.self_attn.q_proj",
                              "1{,2}.self_attn.q_proj",
                              "q_.+?",
                              "(q_)*proj",
                              "[]q]_proj",
                              "[a-z_]{3,6}",
                              "[p-q]_[\\w-]+",
                              "\\S+",
                              "layers.1*.self_attn.q_proj",
                              "(a|)q_proj",
                              "q_proj\\Z",
                              "\\Amodel.*",
                              "(l.*)?self_attn\\.q_proj",
                              "(^model|other)\\..*",
                              "()q_proj",
                              "q_proj($)?"})
    EXPECT_TRUE(ModulePattern(pattern).fits(kModule)) << pattern;
  for (const char* pattern : {"proj",
                              "xq_proj",
                              "self_attn",
                              "layers.1.self_attn.q_proj",
                              "^q_proj",
                              "q_proj.",
                              "k_proj",
                              "^layers.*",
                              "layers\\.[2-9]\\..*",
                              "1.self_attn.q_proj",
                              "q\\.proj",
                              "",
                              "^$",
                              "[^q]_proj",
                              "\\d",
                              "q_pro",
                              "1{3}.self_attn.q_proj",
                              "(q_){2}proj",
                              "\\W",
                              "\\s*",
                              "Q_proj",
                              "$q_proj",
                              "model.layers.11.self_attn.q_proj.",
                              "x.model.layers.11.self_attn.q_proj",
                              "(k|v)_proj"})
    EXPECT_FALSE(ModulePattern(pattern).fits(kModule)) << pattern;
  EXPECT_TRUE(ModulePattern("").fits(""));
  EXPECT_TRUE(ModulePattern("q_proj").fits("q_proj"));
}

// A search that goes back would take as long as there are ways to cut the name.
TEST(ModulePattern, CostsItsStatesOnly) {
  const ModulePattern pattern("((((a|a)*)*)*)*b");
  EXPECT_LT(pattern.states(), 30u);
  EXPECT_FALSE(pattern.fits(std::string(4096, 'a')));
  EXPECT_TRUE(pattern.fits(std::string(4096, 'a') + "b"));
}

TEST(ModulePattern, WhatIsNotRunIsRefusedByName) {
  const auto refused = [](Code code, const std::string& pattern, std::string_view what) {
    SCOPED_TRACE(pattern);
    expect_error(code, {what}, [&] { ModulePattern one(pattern); });
  };
  const Code unsupported = Code::kUnsupportedModel, format = Code::kFormat;
  refused(unsupported, "(?!q)_proj", "\"(?\" at character 1");
  refused(unsupported, "(?i)q_proj", "\"(?\"");
  refused(unsupported, "(q)\\1", "\"\\1\" at character 4");
  refused(unsupported, "\\bq_proj", "\"\\b\"");
  refused(unsupported, "q_proj\xc3\xa4 ", "beyond ASCII");
  refused(unsupported, "q++", "gives nothing back");
  refused(unsupported, "q{x}", "begins no count");
  refused(unsupported, "q{}", "begins no count");
  refused(unsupported, "(q{1000}){1000}", "more than 1024 states");
  refused(unsupported, "q{1001}", "above 1000");
  refused(unsupported, std::string(33, '(') + std::string(33, ')'), "too many groups");
  refused(format, "(q_proj", "an end inside a group");
  refused(format, "q_proj)", "closes nothing");
  refused(format, "[q", "an end too early");
  refused(format, "q\\", "an end too early");
  refused(format, "*q", "nothing to repeat");
  refused(format, "^*", "nothing to repeat");
  refused(format, "q**", "repetition of a repetition");
  refused(format, "q{2,1}", "a count that falls");
  refused(format, "[z-a]", "a range that falls");
  refused(format, "[\\d-z]", "a range of more than characters");
}

}  // namespace
}  // namespace prefix
