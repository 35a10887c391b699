// Out of memory at every allocation of calls that need no engine: simulations, orders, partitions.
#include <algorithm>

#include "failing_memory.h"

namespace prefix_abi {
namespace {

TEST(Memory, Simulating) {
  prefix_sim* made = nullptr;
  every_allocation({"prefix_sim_create",
                    [&](prefix_error* e) {
                      return prefix_sim_create(R"({"policy": "gdsf", "page": 2})", PREFIX_NUL,
                                               &made, e);
                    },
                    [&](bool ok) {
                      EXPECT_EQ(made != nullptr, ok);
                      prefix_sim_release(std::exchange(made, nullptr));
                    }});
  // Every time anew, in a simulation of its own: the same operation with less and less memory.
  const char* const kOperations[] = {
      R"({"op": "insert", "tokens": [1, 2, 3, 4, 5, 6, 7], "ns": "a"})",
      R"({"op": "insert", "tokens": [1, 2, 3, 9, 9], "slots": [0, 1, 2, 50, 51], "ns": "b"})",
      R"({"op": "match", "tokens": [1, 2, 3, 4], "ns": "a"})",
      R"({"op": "lock", "tokens": [1, 2], "ns": "a"})",
      R"({"op": "unlock", "tokens": [1, 2, 3], "ns": "b"})",
      R"({"op": "evict", "n": 2})",
      R"({"op": "dump"})",
      R"({"op": "stats"})",
      R"({"op": "reset"})",
  };
  for (const char* const operation : kOperations) {
    Sim sim;
    const auto fresh = [&](bool) {
      sim = make_sim();
      for (const char* const before : {R"({"op": "insert", "tokens": [1, 2, 3, 4], "ns": "a"})",
                                       R"({"op": "insert", "tokens": [1, 2, 3, 4], "ns": "b"})",
                                       R"({"op": "lock", "tokens": [1, 2, 3], "ns": "b"})"})
        ASSERT_EQ(prefix_sim_apply(sim, before, PREFIX_NUL, nullptr), PREFIX_OK);
    };
    fresh(true);
    every_allocation(
        {operation,
         [&](prefix_error* e) { return prefix_sim_apply(sim, operation, PREFIX_NUL, e); }, fresh});
  }
  // One that goes on after all of that still works.
  {
    const Sim tried = make_sim(R"({"capacity": 64})");
    for (const char* const operation : kOperations)
      every_allocation(
          {operation,
           [&](prefix_error* e) {
             const prefix_status s = prefix_sim_apply(tried, operation, PREFIX_NUL, e);
             return s == PREFIX_ERR_MISUSE || s == PREFIX_ERR_CACHE_FULL ? PREFIX_OK : s;
           },
           [&](bool) {
             for (const char* const after : {R"({"op":"insert","tokens":[9,8,7]})",
                                             R"({"op":"evict","n":2})", R"({"op":"dump"})"})
               EXPECT_EQ(prefix_sim_apply(tried, after, PREFIX_NUL, nullptr), PREFIX_OK);
           }});
  }
  Sim sim = make_sim(R"({"capacity": 30})");
  const Tokens tokens(40, 3);
  every_allocation({"prefix_sim_request",
                    [&](prefix_error* e) {
                      return prefix_sim_request(sim, "a", 1, tokens.data(), 40, 30, nullptr, e);
                    },
                    [&](bool) { sim = make_sim(R"({"capacity": 30})"); }});
}

TEST(Memory, OrderingAndPartitioning) {
  std::vector<int64_t> cells;
  Tokens tokens;
  std::vector<int64_t> offsets = {0};
  for (int64_t r = 0; r < 40; ++r) {
    for (int64_t c = 0; c < 3; ++c) cells.push_back(r * (c + 3) % 7);
    for (prefix_token t = 0; t < 5; ++t) tokens.push_back(static_cast<prefix_token>(r) % (t + 2));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  std::vector<int64_t> rows(40, -1), order(40, -1), work(4, -1), computed(40, -1);
  std::vector<int32_t> columns(120, -1), parts(40, -1);
  const auto written_only_when = [](auto& list) {
    return [&list](bool ok) {
      EXPECT_EQ(list[0] != -1, ok);
      std::fill(list.begin(), list.end(), -1);
    };
  };
  every_allocation({"prefix_order",
                    [&](prefix_error* e) {
                      return prefix_order(cells.data(), 120, nullptr, 0, 3, rows.data(), 40,
                                          columns.data(), 120, nullptr, e);
                    },
                    written_only_when(rows)});
  every_allocation({"prefix_partition",
                    [&](prefix_error* e) {
                      return prefix_partition(tokens.data(), tokens.size(), offsets.data(), 41, 4,
                                              0, parts.data(), 40, order.data(), 40, work.data(), 4,
                                              nullptr, e);
                    },
                    written_only_when(work)});
  every_allocation({"prefix_estimate_batch",
                    [&](prefix_error* e) {
                      return prefix_estimate_batch(tokens.data(), tokens.size(), offsets.data(), 41,
                                                   computed.data(), 40, nullptr, e);
                    },
                    written_only_when(computed)});
}

TEST(Memory, SimulatingAHybridModel) {
  for (const char* const options :
       {R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90,
            "admission": ["branch", "end", "prompt", "placed"]})",
        R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90, "policy": "marconi",
            "compat": "marconi"})",
        R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90, "policy": "block"})"}) {
    prefix_sim* made = nullptr;
    every_allocation(
        {"prefix_sim_create",
         [&](prefix_error* e) { return prefix_sim_create(options, PREFIX_NUL, &made, e); },
         [&](bool ok) {
           EXPECT_EQ(made != nullptr, ok);
           prefix_sim_release(std::exchange(made, nullptr));
         }});
    Sim sim;
    const auto request = [&](const Tokens& tokens, prefix_error* e) {
      return prefix_sim_request(sim, "a", 1, tokens.data(), tokens.size(), 20, nullptr, e);
    };
    const Tokens before(30, 3);
    Tokens tokens(36, 3);
    tokens[25] = 4;
    const auto fresh = [&](bool ok) {
      // Its trees may differ from each other: it says so, and does not go on.
      if (!ok)
        for (int i = 0; i < 2; ++i) {
          const prefix_status s = request(tokens, nullptr);
          EXPECT_TRUE(s == PREFIX_OK || s == PREFIX_ERR_OUT_OF_MEMORY) << s;
        }
      sim = make_sim(options);
      ASSERT_EQ(request(before, nullptr), PREFIX_OK);
    };
    fresh(true);
    every_allocation(
        {"prefix_sim_request", [&](prefix_error* e) { return request(tokens, e); }, fresh});
  }
}

}  // namespace
}  // namespace prefix_abi
