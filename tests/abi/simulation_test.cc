// The simulation of the cache through the C interface: what each operation answers, what is refused
// and changes nothing, and that a second thread is told so. The rules of the tree itself are tested
// in tests/tree.
#include <atomic>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

std::string result_of(const prefix_sim* sim) {
  return text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_sim_result(sim, buf, cap, needed, e);
  });
}

std::string apply(prefix_sim* sim, const std::string& operation) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_sim_apply(sim, operation.data(), operation.size(), e);
  });
  return result_of(sim);
}

TEST(Simulation, AnswersEachOperation) {
  const Sim compat = make_sim(R"({"compat":"sglang"})");
  EXPECT_EQ(result_of(compat), R"({"evictable":0,"protected":0,"total":0,"tick":2})");
  const Sim sim = make_sim();
  EXPECT_EQ(result_of(sim), R"({"evictable":0,"protected":0,"total":0,"tick":0})");
  const std::string inserted = apply(sim, R"({"op":"insert","tokens":[1,2,3,4]})");
  EXPECT_EQ(inserted.substr(0, 58),
            R"({"matched":0,"freed":[],"evictable":4,"protected":0,"total)");
  EXPECT_EQ(apply(sim, R"({"op":"match","tokens":[1,2,9]})").substr(0, 28),
            R"({"matched":2,"slots":[0,1],")");
  EXPECT_NE(apply(sim, R"({"op":"lock","tokens":[1,2,3,4]})").find(R"("protected":4)"),
            std::string::npos);
  EXPECT_EQ(apply(sim, R"({"op":"evict","n":4})").substr(0, 11), R"({"freed":[])");
  EXPECT_NE(apply(sim, R"({"op":"unlock","tokens":[1,2,3,4]})").find(R"("protected":0)"),
            std::string::npos);
  EXPECT_NE(apply(sim, R"({"op":"dump"})").find(R"("path":[1,2,3,4],"namespace":"","slots":[0,1)"),
            std::string::npos);
  EXPECT_NE(apply(sim, R"({"op":"evict","n":9})").find(R"("total":0)"), std::string::npos);
  EXPECT_NE(apply(sim, R"({"op":"stats"})").find(R"("nodes":0,"evictions":1)"), std::string::npos);
  EXPECT_NE(apply(sim, R"({"op":"reset"})").find(R"("total":0)"), std::string::npos);
}

TEST(Simulation, HybridModelTakesRequests) {
  const Sim sim = make_sim(R"({"hybrid":{"state_bytes":100,"kv_bytes":1},"policy":"lru",
                               "capacity":300,"admission":["branch","end","prompt"]})");
  const std::vector<prefix_token> tokens = {1, 2, 3, 4, 5, 6};
  const auto request = [&](size_t n, size_t prompt) {
    int64_t reused = -1;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_sim_request(sim, nullptr, 0, tokens.data(), n, prompt, &reused, e);
    });
    return reused;
  };
  EXPECT_EQ(request(5, 2), 0);
  EXPECT_EQ(request(3, 3), 2) << "the end of the first prompt";
  const std::string stats = apply(sim, R"({"op":"stats"})");
  for (const char* const field :
       {R"("nodes":2,"states":2,"tokens":4,"bytes":204,"peak_bytes":204,"evictions":0,"refused":1)",
        R"("in_use":"lru","alpha":0,"window":0,"evictable":4,"protected":0,"total":4,"tick":2)"})
    EXPECT_NE(stats.find(field), std::string::npos) << stats;
  const std::string match = R"({"op":"match","tokens":[1]})";
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_sim_apply(sim, match.data(), match.size(), e); },
         {"match", "stats"});
}

TEST(Simulation, SlotsMayBeNamed) {
  const Sim sim = make_sim(R"({"page": 2})");
  apply(sim, R"({"op":"insert","tokens":[1,2,3,4,5],"slots":[10,11,20,21,30]})");
  EXPECT_NE(apply(sim, R"({"op":"match","tokens":[1,2,3,4,5]})").find(R"("slots":[10,11,20,21])"),
            std::string::npos);
  apply(sim, R"({"op":"insert","tokens":[7,8,9],"slots":[5,6]})");
  for (const char* bad : {"[1]", "[]", "[1,2,3,4]"})
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) {
             const std::string op =
                 std::string(R"({"op":"insert","tokens":[4,4,4],"slots":)") + bad + "}";
             return prefix_sim_apply(sim, op.data(), op.size(), e);
           },
           {"slots", "2 to 3"});
}

TEST(Simulation, Namespaces) {
  const Sim sim = make_sim();
  apply(sim, R"({"op":"insert","tokens":[1,2],"ns":"a"})");
  EXPECT_EQ(apply(sim, R"({"op":"match","tokens":[1,2],"ns":"b"})").substr(0, 13),
            R"({"matched":0,)");
  EXPECT_EQ(apply(sim, R"({"op":"match","tokens":[1,2],"ns":"a"})").substr(0, 13),
            R"({"matched":2,)");
}

TEST(Simulation, RequestsOfATrace) {
  const Sim sim = make_sim();
  const auto reused = [&](const Tokens& tokens, size_t prompt) {
    int64_t n = -1;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_sim_request(sim, nullptr, 0, tokens.data(), tokens.size(), prompt, &n, e);
    });
    return n;
  };
  EXPECT_EQ(reused({1, 2, 3, 4, 5}, 3), 0);
  EXPECT_EQ(reused({1, 2, 3, 4, 5, 6, 7}, 6), 5) << "prompt and answer of the first";
  EXPECT_EQ(reused({1, 2, 3}, 3), 2) << "the last token is always computed";
  const prefix_token tokens[] = {1, -5};
  const auto call = [&](const prefix_token* t, size_t n, size_t prompt) {
    return [&sim, t, n, prompt](prefix_error* e) {
      return prefix_sim_request(sim, "", 0, t, n, prompt, nullptr, e);
    };
  };
  const std::string before = apply(sim, R"({"op":"stats"})");
  expect(PREFIX_ERR_OUT_OF_RANGE, call(tokens, 2, 1), {"token 1", "-5"});
  expect(PREFIX_ERR_OUT_OF_RANGE, call(tokens, 1, 0), {"n_prompt", "0", "[1, 1]"});
  expect(PREFIX_ERR_OUT_OF_RANGE, call(tokens, 1, 2), {"n_prompt", "2", "[1, 1]"});
  expect(PREFIX_ERR_OUT_OF_RANGE, call(tokens, 0, 0), {"n_prompt"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, call(nullptr, 2, 1), {"tokens"});
  EXPECT_EQ(apply(sim, R"({"op":"stats"})"), before);
}

TEST(Simulation, WhatIsLargerThanTheCacheIsNotKept) {
  const Sim sim = make_sim(R"({"capacity": 64})");
  apply(sim, R"({"op":"insert","tokens":[1,2,3]})");
  const Tokens tokens(100, 3);
  std::string insert = R"({"op":"insert","tokens":[3)";
  for (size_t i = 1; i < tokens.size(); ++i) insert += ",3";
  insert += "]}";
  expect(PREFIX_ERR_CACHE_FULL,
         [&](prefix_error* e) { return prefix_sim_apply(sim, insert.data(), insert.size(), e); },
         {"100 tokens", "capacity of 64"});
  EXPECT_NE(apply(sim, R"({"op":"stats"})").find(R"("total":3,)"), std::string::npos);
  for (int i = 0; i < 2; ++i) {
    int64_t reused = -1;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_sim_request(sim, "", 0, tokens.data(), 100, 100, &reused, e);
    });
    EXPECT_EQ(reused, 0);
  }
}

struct Bad {
  const char* json;
  prefix_status status;
  std::vector<std::string_view> parts;
};

TEST(Simulation, BadOptions) {
  constexpr prefix_status kInvalid = PREFIX_ERR_INVALID_ARGUMENT, kRange = PREFIX_ERR_OUT_OF_RANGE;
  const Bad cases[] = {
      {"", kInvalid, {"JSON"}},
      {"{", kInvalid, {"JSON", "byte 1"}},
      {"[]", kInvalid, {"list", "object"}},
      {R"({"pages": 1})", kInvalid, {"pages", "policy, page"}},
      {R"({"page": 1, "page": 2})", kInvalid, {"page", "twice"}},
      {R"({"policy": "best"})", kInvalid, {"best", "lru", "gdsf"}},
      {R"({"policy": 1})", kInvalid, {"policy", "1", "string"}},
      {R"({"page": 0})", kRange, {"page", "0", "[1, 65536]"}},
      {R"({"page": 65537})", kRange, {"65537", "[1, 65536]"}},
      {R"({"page": 1.0})", kInvalid, {"page", "integer"}},
      {R"({"page": "1"})", kInvalid, {"page", "integer"}},
      {R"({"page": null})", kInvalid, {"page", "integer"}},
      {R"({"capacity": -1})", kRange, {"capacity", "-1"}},
      {R"({"capacity": 18446744073709551615})", kRange, {"capacity", "18446744073709551615"}},
      {R"({"bigram": 1})", kInvalid, {"bigram", "1"}},
      {R"({"compat": "vllm"})", kInvalid, {"vllm", "sglang"}},
      {"{\"policy\": \"\xff\"}", PREFIX_ERR_INVALID_UTF8, {"byte"}},
  };
  for (const Bad& c : cases) {
    SCOPED_TRACE(c.json);
    Sim sim;
    Error error;
    EXPECT_EQ(prefix_sim_create(c.json, PREFIX_NUL, sim.out(), &error), c.status) << error.message;
    EXPECT_EQ(sim, nullptr);
    for (const std::string_view part : c.parts)
      EXPECT_NE(std::string_view(error.message).find(part), std::string_view::npos)
          << error.message;
  }
  make_sim("{}");
  make_sim(R"({"policy":"slru","page":16,"capacity":100,"bigram":true,"compat":"sglang"})");
}

TEST(Simulation, BadOperationsChangeNothing) {
  constexpr prefix_status kInvalid = PREFIX_ERR_INVALID_ARGUMENT, kRange = PREFIX_ERR_OUT_OF_RANGE;
  const Sim sim = make_sim();
  apply(sim, R"({"op":"insert","tokens":[1,2,3,4]})");
  const std::string before = apply(sim, R"({"op":"dump"})");
  const Bad cases[] = {
      {"", kInvalid, {"JSON"}},
      {"insert", kInvalid, {"JSON"}},
      {"7", kInvalid, {"7", "object"}},
      {"{}", kInvalid, {"op"}},
      {R"({"op": 1})", kInvalid, {"op", "string"}},
      {R"({"op": "find", "tokens": []})", kInvalid, {"find", "match"}},
      {R"({"op": "match"})", kInvalid, {"match", "tokens"}},
      {R"({"op": "match", "token": [1]})", kInvalid, {"token", "op, tokens, ns"}},
      {R"({"op": "match", "tokens": 1})", kInvalid, {"tokens", "list"}},
      {R"({"op": "match", "tokens": [1, -2]})", kRange, {"value 1", "-2", "2147483647"}},
      {R"({"op": "match", "tokens": [2147483648]})", kRange, {"2147483648", "2147483647"}},
      {R"({"op": "match", "tokens": [1.5]})", kInvalid, {"1.5", "integer"}},
      {R"({"op": "match", "tokens": ["1"]})", kInvalid, {"integer"}},
      {R"({"op": "match", "tokens": [[1]]})", kInvalid, {"integer"}},
      {R"({"op": "match", "tokens": [1], "ns": null})", kInvalid, {"ns", "null", "string"}},
      {R"({"op": "match", "tokens": [1], "priority": 1})", kInvalid, {"priority"}},
      {R"({"op": "insert", "tokens": [1], "priority": 32768})", kRange, {"32768", "32767"}},
      {R"({"op": "insert", "tokens": [9], "slots": [-1]})", kRange, {"slots", "-1"}},
      {R"({"op": "insert", "tokens": [9, 9], "slots": [1]})", kInvalid, {"slots", "1", "2"}},
      {R"({"op": "insert", "tokens": [1, 2, 9], "x": 1})", kInvalid, {"x"}},
      {R"({"op": "evict"})", kInvalid, {"n"}},
      {R"({"op": "evict", "n": -1})", kRange, {"-1", "[0,"}},
      {R"({"op": "evict", "n": 1e3})", kInvalid, {"integer"}},
      {R"({"op": "evict", "n": 1, "tokens": []})", kInvalid, {"tokens"}},
      {R"({"op": "reset", "n": 1})", kInvalid, {"n"}},
      {R"({"op": "unlock", "tokens": [1, 2, 3, 4]})", PREFIX_ERR_MISUSE, {"lock"}},
      {"{\"op\": \"match\", \"tokens\": [], \"ns\": \"\xc0\"}", PREFIX_ERR_INVALID_UTF8, {}},
  };
  for (const Bad& c : cases) {
    SCOPED_TRACE(c.json);
    Error error;
    EXPECT_EQ(prefix_sim_apply(sim, c.json, PREFIX_NUL, &error), c.status) << error.message;
    EXPECT_STREQ(error.domain, "prefix_sim_apply");
    for (const std::string_view part : c.parts)
      EXPECT_NE(std::string_view(error.message).find(part), std::string_view::npos)
          << error.message;
    EXPECT_EQ(result_of(sim), before) << "the last result that succeeded stays";
  }
  EXPECT_EQ(apply(sim, R"({"op":"dump"})"), before);
}

TEST(Simulation, TooLongIsRefused) {
  const Sim sim = make_sim();
  const std::string bytes((64u << 20) + 1, ' ');
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_sim_apply(sim, bytes.data(), bytes.size(), e); },
         {"67108865", "67108864"});
  std::string many = R"({"op":"match","tokens":[0)";
  for (int i = 0; i < (4 << 20); ++i) many += ",0";
  many += "]}";
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_sim_apply(sim, many.data(), many.size(), e); },
         {"4194304"});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return prefix_sim_apply(sim, "{}", size_t{1} << 50, e); },
         {"bytes"});
}

// Each call is answered: it worked, or another thread was at it.
TEST(Simulation, TwoThreadsAtOnceAreMisuse) {
  const Sim sim = make_sim(R"({"capacity": 3000})");
  std::string insert = R"({"op":"insert","tokens":[1)";
  for (int i = 0; i < 2000; ++i) insert += "," + std::to_string(i);
  insert += "]}";
  std::atomic<int> worked{0}, refused{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Tokens tokens(50, t);
      char buf[100];
      for (int i = 0; i < (quick() ? 50 : 500); ++i) {
        prefix_status status = PREFIX_OK;
        if (t == 0) status = prefix_sim_apply(sim, insert.data(), insert.size(), nullptr);
        if (t == 1) status = prefix_sim_result(sim, buf, sizeof(buf), nullptr, nullptr);
        if (t >= 2)
          status = prefix_sim_request(sim, "", 0, tokens.data(), 50, 50, nullptr, nullptr);
        (status == PREFIX_OK ? worked : status == PREFIX_ERR_MISUSE ? refused : wrong) += 1;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(worked, 0);
  EXPECT_EQ(wrong, 0);
  apply(sim, R"({"op":"stats"})");
}

}  // namespace
}  // namespace prefix_abi
