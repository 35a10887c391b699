// Rule 3: text and arrays come back whole or not at all; a capacity of 0 only asks for the size.
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "abi_support.h"

namespace prefix_abi {
namespace {

// An engine with a batch of one request of each task, run.
class Buffers : public testing::Test {
 protected:
  enum Request : size_t { kLogits, kLogprobs, kChoices, kEmbedding, kGenerate, kBad };

  void SetUp() override {
    engine_ = make_engine({{"name", "tiny"}});
    batch_ = make_batch(engine_);
    const Tokens prompt = {1, 2, 3};
    const Tokens choice_tokens = {7, 8, 9};
    const int64_t offsets[] = {0, 1, 3};
    const Options options =
        make_options({{"max_tokens", "3"}, {"logprobs", "true"}, {"ignore_eos", "true"}});
    add_logits(batch_, prompt, {4, 5, 6, 7});
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_logprobs(batch_, prompt.data(), 3, 1, nullptr, 0, nullptr, e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_choices(batch_, prompt.data(), 3, choice_tokens.data(), 3, offsets, 3,
                                      nullptr, 0, nullptr, e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_embedding(batch_, prompt.data(), 3, nullptr, 0, nullptr, e);
    });
    add_generate(batch_, prompt, options);
    add_logits(batch_, {999});
    job_ = run(engine_, batch_);
    options_ = make_options({{"namespace", "tenant"}});
  }

  Options options_;
  Engine engine_;
  Batch batch_;
  Job job_;
};

using TextCall = std::function<prefix_status(char*, size_t, size_t*, prefix_error*)>;

void check_text(const char* name, const TextCall& call) {
  SCOPED_TRACE(name);
  size_t needed = 12345;
  expect(PREFIX_OK, [&](prefix_error* e) { return call(nullptr, 0, &needed, e); });
  const std::string whole = text(call);
  EXPECT_EQ(needed, whole.size());
  ASSERT_GT(needed, 1u);
  char untouched[] = "##";
  expect(PREFIX_OK, [&](prefix_error* e) { return call(untouched, 0, nullptr, e); });
  EXPECT_STREQ(untouched, "##") << "capacity 0 asks for the size, with any buffer";
  // The zero at its end wants room too.
  for (const size_t room : {size_t{1}, needed - 1, needed, needed + 1, needed + 7}) {
    SCOPED_TRACE("room for " + std::to_string(room));
    std::string buffer(needed + 16, '#');
    size_t again = 0;
    const bool fits = room > needed;
    expect(fits ? PREFIX_OK : PREFIX_ERR_BUFFER_TOO_SMALL,
           [&](prefix_error* e) { return call(buffer.data(), room, &again, e); });
    EXPECT_EQ(again, needed);
    const size_t written = fits ? needed + 1 : 0;
    EXPECT_EQ(buffer.substr(0, written), (whole + '\0').substr(0, written));
    EXPECT_EQ(buffer.substr(written).find_first_not_of('#'), std::string::npos);
  }
  needed = 12345;
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return call(nullptr, 8, &needed, e); },
         {"NULL"});
  EXPECT_EQ(needed, 12345u) << "a call that fails changes nothing";
}

TEST_F(Buffers, EveryTextComesWholeOrNotAtAll) {
  check_text("prefix_options_get", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_options_get(options_, "namespace", PREFIX_NUL, b, c, n, e);
  });
  check_text("prefix_model_info_json", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_model_info_json(model_path().c_str(), PREFIX_NUL, b, c, n, e);
  });
  check_text("prefix_engine_info_json", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_engine_info_json(engine_, b, c, n, e);
  });
  check_text("prefix_metrics_text", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_metrics_text(engine_, b, c, n, e);
  });
  check_text("prefix_batch_plan_json", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_batch_plan_json(batch_, b, c, n, e);
  });
  check_text("prefix_cache_tree_json", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_cache_tree_json(engine_, b, c, n, e);
  });
  check_text("prefix_job_result_message", [&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_job_result_message(job_, kBad, b, c, n, e);
  });
}

TEST_F(Buffers, AnEmptyTextIsAZeroByte) {
  EXPECT_EQ(message_of(job_, kLogits), "");
  char one = '#';
  size_t needed = 1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_message(job_, kLogits, &one, 1, &needed, e);
  });
  EXPECT_EQ(needed, 0u);
  EXPECT_EQ(one, 0);
}

template <typename T>
using ArrayCall = std::function<prefix_status(T*, size_t, size_t*, prefix_error*)>;

template <typename T>
void check_array(const char* name, size_t size, const ArrayCall<T>& call,
                 const char* parameter = "out") {
  SCOPED_TRACE(name);
  size_t needed = 12345;
  expect(PREFIX_OK, [&](prefix_error* e) { return call(nullptr, 0, &needed, e); });
  ASSERT_EQ(needed, size);
  std::vector<T> whole(size + 2, T{-77});
  expect(PREFIX_OK, [&](prefix_error* e) { return call(whole.data(), size + 2, nullptr, e); });
  EXPECT_EQ(whole[size], T{-77});
  for (size_t room = 0; room <= size; ++room) {
    std::vector<T> part(size + 1, T{-77});
    needed = 12345;
    expect(room == 0 || room == size ? PREFIX_OK : PREFIX_ERR_BUFFER_TOO_SMALL,
           [&](prefix_error* e) { return call(part.data(), room, &needed, e); }, {parameter});
    EXPECT_EQ(needed, size);
    for (size_t i = 0; i <= size; ++i)
      EXPECT_TRUE(std::memcmp(&part[i], &(room == size ? whole[i] : whole[size + 1]), sizeof(T)) ==
                  0)
          << "room for " << room << ", element " << i;
  }
  if (size > 0)
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) { return call(nullptr, 1, nullptr, e); }, {parameter, "NULL"});
}

TEST_F(Buffers, EveryArrayComesWholeOrNotAtAll) {
  const size_t sizes[] = {4, 2, 2, 64, 0};
  for (size_t i = 0; i < 5; ++i)
    check_array<float>("prefix_job_result_values", sizes[i],
                       [&](float* out, size_t c, size_t* n, prefix_error* e) {
                         return prefix_job_result_values(job_, i, out, c, n, e);
                       });
  check_array<prefix_token>("prefix_job_result_tokens", 3,
                            [&](prefix_token* out, size_t c, size_t* n, prefix_error* e) {
                              return prefix_job_result_tokens(job_, kGenerate, out, c, n, e);
                            });
  check_array<prefix_token>("prefix_job_partial_tokens", 3,
                            [&](prefix_token* out, size_t c, size_t* n, prefix_error* e) {
                              return prefix_job_partial_tokens(job_, kGenerate, out, c, n, e);
                            });
  for (const size_t i : {size_t{kChoices}, size_t{kGenerate}})
    check_array<float>("prefix_job_result_logprobs", 3,
                       [&](float* out, size_t c, size_t* n, prefix_error* e) {
                         return prefix_job_result_logprobs(job_, i, out, c, n, e);
                       });
  const std::vector<prefix_token> prompts = {1, 2, 3, 9};
  const int64_t ends[] = {0, 3, 4};
  check_array<int64_t>(
      "prefix_cache_lookup_many", 2,
      [&](int64_t* out, size_t c, size_t* n, prefix_error* e) {
        return prefix_cache_lookup_many(engine_, 0, prompts.data(), 4, ends, 3, out, c, n, e);
      },
      "cached");
  check_array<float>("prefix_job_all_values", 75,
                     [&](float* out, size_t c, size_t* n, prefix_error* e) {
                       return prefix_job_all_values(job_, out, c, n, nullptr, 0, e);
                     });
}

TEST_F(Buffers, AllValuesAreTheValuesOfEachRequest) {
  std::vector<float> all(75);
  std::vector<int64_t> offsets(8);
  const std::vector<int64_t> begins = {0, 4, 6, 8, 72, 72, 75};
  for (size_t room = 0; room <= 8; ++room) {
    std::fill(offsets.begin(), offsets.end(), -1);
    std::fill(all.begin(), all.end(), -7.f);
    const bool fits = room == 0 || room >= begins.size();
    expect(fits ? PREFIX_OK : PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
      return prefix_job_all_values(job_, all.data(), all.size(), nullptr, offsets.data(), room, e);
    });
    EXPECT_EQ(all[0] == -7.f, !fits) << "both are written, or neither is";
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(offsets[i], room >= begins.size() && i < begins.size() ? begins[i] : -1);
  }
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(values_of(job_, i),
              std::vector<float>(all.begin() + offsets[i], all.begin() + offsets[i + 1]));
  EXPECT_TRUE(std::isnan(all[72]) && std::isnan(all[74])) << "of the request that failed";
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_job_all_values(job_, nullptr, 0, nullptr, nullptr, 3, e);
         },
         {"offsets"});
}

TEST_F(Buffers, IndexesBeyondTheBatchNameTheirLimit) {
  float out[1];
  prefix_token token[1];
  char buf[1];
  prefix_result_info info{};
  info.struct_size = sizeof(info);
  const std::vector<std::function<prefix_status(size_t, prefix_error*)>> calls = {
      [&](size_t i, prefix_error* e) { return prefix_job_result_info(job_, i, &info, e); },
      [&](size_t i, prefix_error* e) {
        return prefix_job_result_message(job_, i, buf, 1, nullptr, e);
      },
      [&](size_t i, prefix_error* e) {
        return prefix_job_result_values(job_, i, out, 1, nullptr, e);
      },
      [&](size_t i, prefix_error* e) {
        return prefix_job_result_tokens(job_, i, token, 1, nullptr, e);
      },
      [&](size_t i, prefix_error* e) {
        return prefix_job_result_logprobs(job_, i, out, 1, nullptr, e);
      },
      [&](size_t i, prefix_error* e) { return prefix_job_cancel_request(job_, i, e); }};
  for (const auto& call : calls) {
    expect(PREFIX_ERR_OUT_OF_RANGE, [&](prefix_error* e) { return call(6, e); }, {"6"});
    expect(PREFIX_ERR_OUT_OF_RANGE, [&](prefix_error* e) { return call(PREFIX_NUL, e); }, {"6"});
  }
}

TEST_F(Buffers, TheJsonIsJson) {
  const auto info = nlohmann::json::parse(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_engine_info_json(engine_, b, c, n, e);
  }));
  for (const char* key : {"model", "options", "device", "isa", "threads"})
    EXPECT_TRUE(info.contains(key)) << key;
  EXPECT_EQ(info["model"]["vocab_size"], 131);
  EXPECT_EQ(info["options"]["cache_bytes"], "16777216");  // 16M, as it is in force

  const auto model = nlohmann::json::parse(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_model_info_json(model_path().c_str(), PREFIX_NUL, b, c, n, e);
  }));
  EXPECT_EQ(model["format"], "safetensors");
  EXPECT_EQ(model["sizes"]["vocabulary"], 131);
  int64_t parameters = 0, bytes = 0;
  for (const auto& group : model["tensors"]) {
    parameters += group["parameters"].get<int64_t>();
    bytes += group["bytes"].get<int64_t>();
  }
  EXPECT_EQ(model["parameters"], parameters);
  EXPECT_EQ(model["bytes"], bytes);
  EXPECT_GT(model["flops_per_token"], parameters / 2);

  const auto tree = nlohmann::json::parse(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_cache_tree_json(engine_, b, c, n, e);
  }));
  EXPECT_TRUE(tree.contains("nodes"));
}

// A counter that is rounded to six digits does not count.
TEST_F(Buffers, TheMetricsAreExact) {
  const Batch batch = make_batch(engine_);
  add_logits(batch, Tokens(4096, 5));
  run(engine_, batch);
  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine_, &stats, e); });
  ASSERT_GT(stats.kv_bytes, 1000000);
  const std::string all = text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_metrics_text(engine_, b, c, n, e);
  });
  const auto says = [&](const std::string& name, int64_t value) {
    return all.find("\n" + name + "{model_name=\"tiny\"} " + std::to_string(value) + "\n") !=
           std::string::npos;
  };
  EXPECT_TRUE(says("prefix_kv_bytes", stats.kv_bytes)) << all;
  EXPECT_TRUE(says("prefix_tokens_computed_total", stats.tokens_computed)) << all;
}

TEST_F(Buffers, TheMetricsHaveANameAHelpAndATypeEach) {
  std::istringstream lines(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_metrics_text(engine_, b, c, n, e);
  }));
  // Help and type of a name, then a sample, or one for each value of its label.
  size_t samples = 0;
  bool is_histogram = false;
  std::string name;
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(line.starts_with("# HELP ")) << line;
      EXPECT_TRUE(names.insert(name).second) << line;
      ASSERT_TRUE(std::getline(lines, line));
      EXPECT_TRUE(line.starts_with("# TYPE " + name + " ")) << line;
      is_histogram = line.ends_with(" histogram");
      ASSERT_TRUE(std::getline(lines, line));
    }
    const std::string sample = line.substr(0, line.find_first_of(" {"));
    const std::set<std::string> parts = {name + "_bucket", name + "_sum", name + "_count"};
    EXPECT_TRUE(is_histogram ? parts.contains(sample) : sample == name) << line;
    ASSERT_NE(line.rfind(' '), std::string::npos) << line;
    EXPECT_NO_THROW(std::stod(line.substr(line.rfind(' ') + 1))) << line;
    ++samples;
  }
  EXPECT_GT(samples, 10u);
}

}  // namespace
}  // namespace prefix_abi
