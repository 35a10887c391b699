// Orders, parts and estimates through the C interface: what is refused and with what sentence, what
// room means, and that an engine computes what was estimated. How good they are is tested in
// tests/tree.
#include <algorithm>
#include <functional>
#include <limits>

#include "abi_support.h"

namespace prefix_abi {
namespace {

// Three rows of two columns; the second one has equal cells.
struct OrderCall {
  std::vector<int64_t> values = {7, 5, 8, 6, 9, 5};
  std::vector<int32_t> lengths = {1, 4, 1, 2, 1, 4};
  size_t n_columns = 2;
  std::vector<int64_t> rows = std::vector<int64_t>(3, -1);
  std::vector<int32_t> columns = std::vector<int32_t>(6, -1);
  size_t room_rows = 3, room_columns = 6;
  prefix_order_info info = PREFIX_ORDER_INFO_INIT;

  prefix_status operator()(prefix_error* e) {
    return prefix_order(values.data(), values.size(), lengths.data(), lengths.size(), n_columns,
                        rows.data(), room_rows, columns.data(), room_columns, &info, e);
  }
  void refused(prefix_status wanted, std::initializer_list<std::string_view> parts) {
    expect(wanted, [&](prefix_error* e) { return (*this)(e); }, parts);
    EXPECT_EQ(rows, std::vector<int64_t>(3, -1)) << "nothing is written";
    EXPECT_EQ(columns, std::vector<int32_t>(6, -1));
    EXPECT_EQ(info.tokens, 0);
  }
};

TEST(Order, GivesRowsAndColumnsAndFigures) {
  OrderCall call;
  expect(PREFIX_OK, [&](prefix_error* e) { return call(e); });
  EXPECT_EQ(call.rows, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(call.columns, (std::vector<int32_t>{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(call.info.tokens, 13);
  EXPECT_EQ(call.info.hit_before, 0);
  EXPECT_EQ(call.info.hit, 4);

  OrderCall counted;
  counted.lengths.clear();
  expect(PREFIX_OK, [&](prefix_error* e) { return counted(e); });
  EXPECT_EQ(counted.info.tokens, 6) << "cells without lengths count as 1";
  EXPECT_EQ(counted.info.hit, 1);

  OrderCall figures;
  figures.room_rows = figures.room_columns = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return figures(e); });
  EXPECT_EQ(figures.rows[0], -1) << "no room, nothing written";
  EXPECT_EQ(figures.info.hit, 4);
}

TEST(Order, RefusesWhatIsNoTable) {
  const auto with = [](const std::function<void(OrderCall&)>& change) {
    OrderCall call;
    change(call);
    return call;
  };
  with([](OrderCall& c) {
    c.values.clear();
  }).refused(PREFIX_ERR_INVALID_ARGUMENT, {"n_values is 0", "at least 1 row"});
  with([](OrderCall& c) {
    c.n_columns = 0;
  }).refused(PREFIX_ERR_INVALID_ARGUMENT, {"n_columns is 0", "at least 1"});
  with([](OrderCall& c) {
    c.n_columns = 4;
  }).refused(PREFIX_ERR_INVALID_ARGUMENT, {"n_values is 6", "multiple of the 4 columns"});
  with([](OrderCall& c) {
    c.n_columns = 65537;
  }).refused(PREFIX_ERR_OUT_OF_RANGE, {"n_columns is 65537", "65536"});
  with([](OrderCall& c) {
    c.lengths.pop_back();
  }).refused(PREFIX_ERR_INVALID_ARGUMENT, {"n_lengths is 5", "n_values, 6"});
  with([](OrderCall& c) {
    c.lengths[3] = -2;
  }).refused(PREFIX_ERR_OUT_OF_RANGE, {"row 1, column 1", "is -2", "below 0"});
  with([](OrderCall& c) {
    c.lengths[5] = 3;
  }).refused(PREFIX_ERR_INVALID_ARGUMENT, {"row 2, column 1", "length 3", "4 in a row before"});
  with([](OrderCall& c) {
    c.room_rows = 2;
  }).refused(PREFIX_ERR_BUFFER_TOO_SMALL, {"rows has room for 2", "3 are needed"});
  with([](OrderCall& c) {
    c.room_columns = 5;
  }).refused(PREFIX_ERR_BUFFER_TOO_SMALL, {"columns has room for 5", "6 are needed"});
  const int64_t one = 1;
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_order(&one, SIZE_MAX / 2, nullptr, 0, 1, nullptr, 0, nullptr, 0, nullptr,
                               e);
         },
         {"values", std::to_string(SIZE_MAX / 2)});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_order(&one, size_t{1} << 32, nullptr, 0, 2, nullptr, 0, nullptr, 0,
                               nullptr, e);
         },
         {"2147483648 rows", "2147483647"});
}

// Prompts as the functions take them.
struct Prompts {
  Tokens tokens;
  std::vector<int64_t> offsets = {0};

  void add(const Tokens& prompt) {
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  size_t size() const { return offsets.size() - 1; }
};

Prompts make_prompts(std::initializer_list<Tokens> list) {
  Prompts prompts;
  for (const Tokens& p : list) prompts.add(p);
  return prompts;
}

prefix_status parts_of(const Prompts& p, int32_t n, double balance, std::vector<int32_t>* parts,
                       prefix_partition_info* info, prefix_error* e) {
  return prefix_partition(p.tokens.data(), p.tokens.size(), p.offsets.data(), p.offsets.size(), n,
                          balance, parts ? parts->data() : nullptr, parts ? parts->size() : 0,
                          nullptr, 0, nullptr, 0, info, e);
}

TEST(Partition, GivesPartsOrderAndWork) {
  const Prompts p = make_prompts({{1, 2, 3}, {7, 8, 9}, {1, 2, 4}, {7, 8, 6}, {}});
  std::vector<int32_t> parts(5);
  std::vector<int64_t> order(5), work(3);
  prefix_partition_info info = PREFIX_PARTITION_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_partition(p.tokens.data(), p.tokens.size(), p.offsets.data(), 6, 3, 2.0,
                            parts.data(), 5, order.data(), 5, work.data(), 3, &info, e);
  });
  EXPECT_EQ(parts[0], parts[2]);
  EXPECT_EQ(parts[1], parts[3]);
  EXPECT_NE(parts[0], parts[1]);
  EXPECT_EQ(order, (std::vector<int64_t>{4, 0, 2, 3, 1}));
  std::sort(work.begin(), work.end());
  EXPECT_EQ(work, (std::vector<int64_t>{0, 4, 4})) << "a third part would compute a prefix again";
  EXPECT_EQ(info.tokens, 12);
  EXPECT_EQ(info.distinct, 8);
  EXPECT_EQ(info.computed, 8);
  EXPECT_EQ(info.largest, 4);
}

TEST(Partition, RefusesWhatMakesNoSense) {
  const Prompts p = make_prompts({{1, 2, 3}, {7}});
  const auto refused = [&](int32_t n, double balance, std::initializer_list<std::string_view> of) {
    expect(
        PREFIX_ERR_OUT_OF_RANGE,
        [&](prefix_error* e) { return parts_of(p, n, balance, nullptr, nullptr, e); }, of);
  };
  refused(0, 0, {"n_parts is 0", "[1, 1048576]"});
  refused(-3, 0, {"n_parts is -3"});
  refused(1048577, 0, {"n_parts is 1048577"});
  refused(2, 0.99, {"balance is 0.99", "[1, 1"});
  refused(2, -1, {"balance is -1"});
  refused(2, 1000001, {"balance is 1000001"});
  refused(2, std::numeric_limits<double>::quiet_NaN(), {"balance is"});
  std::vector<int32_t> parts(1, -1);
  expect(PREFIX_ERR_BUFFER_TOO_SMALL,
         [&](prefix_error* e) { return parts_of(p, 2, 0, &parts, nullptr, e); },
         {"parts has room for 1", "2 are needed"});
  for (int which = 0; which < 3; ++which) {
    Prompts bad = p;
    if (which == 0) bad.offsets[1] = 5;
    if (which == 1) bad.offsets[2] = 3;
    if (which == 2) bad.tokens[3] = -7;
    expect(PREFIX_ERR_OUT_OF_RANGE,
           [&](prefix_error* e) { return parts_of(bad, 2, 0, nullptr, nullptr, e); });
    expect(PREFIX_ERR_OUT_OF_RANGE, [&](prefix_error* e) {
      return prefix_estimate_batch(bad.tokens.data(), bad.tokens.size(), bad.offsets.data(),
                                   bad.offsets.size(), nullptr, 0, nullptr, e);
    });
  }
}

TEST(Partition, DefinedForNothingAndForFew) {
  prefix_partition_info info = PREFIX_PARTITION_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return parts_of({}, 4, 0, nullptr, &info, e); });
  EXPECT_EQ(info.tokens + info.distinct + info.computed + info.largest, 0);
  std::vector<int32_t> parts(2);
  const Prompts two = make_prompts({{1, 2}, {3, 4}});
  expect(PREFIX_OK, [&](prefix_error* e) { return parts_of(two, 1000, 0, &parts, &info, e); });
  EXPECT_NE(parts[0], parts[1]);
  EXPECT_EQ(info.largest, 2);
}

// The estimate against an engine: each prompt as a request of one batch, in an empty cache.
TEST(EstimateBatch, IsWhatAnEngineComputes) {
  const Engine engine = make_engine();
  for (uint32_t round = 0; round < 6; ++round) {
    uint32_t seed = round * 7919 + 1;
    const auto below = [&](uint32_t n) {
      seed = seed * 1664525 + 1013904223;
      return (seed >> 16) % n;
    };
    Prompts prompts;
    const Batch batch = make_batch(engine);
    for (size_t i = 0; i < 24; ++i) {
      Tokens prompt;
      if (prompts.size() > 0 && below(3) > 0) {
        const size_t from = below(static_cast<uint32_t>(prompts.size()));
        prompt.assign(prompts.tokens.begin() + prompts.offsets[from],
                      prompts.tokens.begin() + prompts.offsets[from + 1]);
        prompt.resize(1 + below(static_cast<uint32_t>(prompt.size())));
      }
      for (uint32_t n = 1 + below(50); n > 0 && below(8) > 0; --n)
        prompt.push_back(static_cast<prefix_token>(round * 10 + below(3)));
      if (prompt.empty()) prompt.push_back(static_cast<prefix_token>(round * 10));
      add_logits(batch, prompt);
      prompts.add(prompt);
    }
    std::vector<int64_t> computed(prompts.size());
    prefix_estimate_info info = PREFIX_ESTIMATE_INFO_INIT;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_estimate_batch(prompts.tokens.data(), prompts.tokens.size(),
                                   prompts.offsets.data(), prompts.offsets.size(), computed.data(),
                                   computed.size(), &info, e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_trim(engine, 0, nullptr, e); });
    const Job job = run(engine, batch);
    prefix_job_totals totals = PREFIX_JOB_TOTALS_INIT;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_get_totals(job, &totals, e); });
    int64_t all = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(info_of(job, i).computed_tokens, computed[i]) << "request " << i;
      all += computed[i];
    }
    EXPECT_EQ(info.computed, all);
    EXPECT_EQ(info.tokens, static_cast<int64_t>(prompts.tokens.size()));
  }
}

}  // namespace
}  // namespace prefix_abi
