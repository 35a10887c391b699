// Rule 2: the error struct belongs to the caller, is written only on failure, and may be NULL.
// Rule 3: text that goes in is UTF-8.
#include <algorithm>
#include <limits>

#include "abi_support.h"

namespace prefix_abi {
namespace {

prefix_status fail_with_size(int32_t struct_size, prefix_error* error) {
  std::memset(static_cast<void*>(error), 0x5a, sizeof(*error));
  error->struct_size = struct_size;
  return prefix_options_create(nullptr, error);
}

TEST(Errors, AreWrittenOnFailureOnly) {
  Error error;
  std::memset(error.message, 0x5a, sizeof(error.message));
  const prefix_error before = error;
  Options options;
  EXPECT_EQ(prefix_options_create(options.out(), &error), PREFIX_OK);
  EXPECT_EQ(std::memcmp(&error, &before, sizeof(prefix_error)), 0);
  EXPECT_EQ(prefix_options_set(options, "rows", 4, "12", 2, &error), PREFIX_OK);
  EXPECT_EQ(std::memcmp(&error, &before, sizeof(prefix_error)), 0);

  EXPECT_EQ(prefix_options_set(options, "rows", 4, "-12", 3, &error), PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_STREQ(error.domain, "prefix_options_set");
  EXPECT_NE(std::string(error.message).find("-12"), std::string::npos) << error.message;
}

TEST(Errors, MayBeNull) {
  EXPECT_EQ(prefix_options_create(nullptr, nullptr), PREFIX_ERR_INVALID_ARGUMENT);
}

TEST(Errors, ThatAreTooSmallAreLeftAlone) {
  constexpr auto kSize = static_cast<int32_t>(sizeof(prefix_error));
  for (const int32_t size : {kSize - 1, 8, 4, 0, -1, INT32_MIN}) {
    prefix_error error, before;
    EXPECT_EQ(fail_with_size(size, &error), PREFIX_ERR_INVALID_ARGUMENT);
    std::memset(static_cast<void*>(&before), 0x5a, sizeof(before));
    before.struct_size = size;
    EXPECT_EQ(std::memcmp(&error, &before, sizeof(error)), 0) << size;
  }
  struct {
    prefix_error known;
    unsigned char more[32];
  } later;
  std::memset(later.more, 0x5a, sizeof(later.more));
  EXPECT_EQ(fail_with_size(sizeof(later), &later.known), PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(later.known.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(later.known.struct_size, static_cast<int32_t>(sizeof(later)));
  for (const unsigned char byte : later.more) EXPECT_EQ(byte, 0x5a);
}

// A long message is cut where a character ends, and ends with a zero.
TEST(Errors, LongMessagesAreCutBetweenCharacters) {
  const Options options = make_options({});
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string path(shift, 'x');
    for (int i = 0; i < 400; ++i) path += "\xf0\x9f\x8c\xb3";  // a tree: four bytes
    Engine engine;
    struct {
      Error error;
      char behind[8];
    } memory;
    Error& error = memory.error;
    std::memset(error.message, 0x5a, sizeof(error.message));
    std::memset(memory.behind, 0x5a, sizeof(memory.behind));
    const prefix_status status =
        prefix_engine_create(path.data(), path.size(), options, engine.out(), &error);
    EXPECT_NE(status, PREFIX_OK);
    // Not strlen: the compiler knows that it is less than the array, and asks nobody.
    const void* const zero = std::memchr(error.message, 0, sizeof(error.message));
    ASSERT_NE(zero, nullptr);
    for (const char byte : memory.behind) EXPECT_EQ(byte, 0x5a);
    const std::string_view message(
        error.message, static_cast<size_t>(static_cast<const char*>(zero) - error.message));
    EXPECT_GE(message.size(), sizeof(error.message) - 4) << "no more than a character is lost";
    // Bytes that begin a character, times four, are all of its bytes.
    const auto starts = std::count(message.begin(), message.end(), '\xf0');
    const auto others = std::count_if(message.begin(), message.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    });
    EXPECT_EQ(others, starts * 3) << message;
  }
}

struct BadText {
  const char* what;
  std::string text;
  const char* position;
};

const BadText kBadTexts[] = {
    {"a byte that begins nothing", "ab\x80", "2"},
    {"a cut character", "abc\xe2\x82", "3"},
    {"a character that is interrupted", "\xc3(", "0"},
    {"an overlong slash", "x\xc0\xaf", "1"},
    {"an overlong euro", "\xf0\x82\x82\xac", "0"},
    {"half of a surrogate pair", "\xed\xa0\x80", "0"},
    {"beyond the last code point", "\xf4\x90\x80\x80", "0"},
    {"a byte of no encoding", "\xff", "0"},
};

TEST(Errors, TextThatIsNotUtf8NamesTheByte) {
  const Options options = make_options({});
  const Engine engine = make_engine();
  for (const BadText& bad : kBadTexts) {
    SCOPED_TRACE(bad.what);
    const char* const t = bad.text.data();
    const size_t n = bad.text.size();
    Engine none;
    int32_t ns = 0;
    prefix_memory memory{};
    memory.struct_size = sizeof(memory);
    const auto refused = [&](auto call) {
      expect(PREFIX_ERR_INVALID_UTF8, call, {bad.position, "UTF-8"});
    };
    refused([&](prefix_error* e) { return prefix_options_set(options, t, n, "1", 1, e); });
    refused([&](prefix_error* e) { return prefix_options_set(options, "namespace", 9, t, n, e); });
    refused([&](prefix_error* e) { return prefix_options_set_int(options, t, n, 1, e); });
    refused([&](prefix_error* e) { return prefix_options_set_double(options, t, n, 1, e); });
    refused([&](prefix_error* e) { return prefix_options_set_json(options, t, n, e); });
    refused(
        [&](prefix_error* e) { return prefix_options_get(options, t, n, nullptr, 0, nullptr, e); });
    refused([&](prefix_error* e) { return prefix_engine_estimate(t, n, nullptr, &memory, e); });
    refused([&](prefix_error* e) { return prefix_engine_create(t, n, nullptr, none.out(), e); });
    refused([&](prefix_error* e) { return prefix_namespace_open(engine, t, n, &ns, e); });
    refused([&](prefix_error* e) { return prefix_namespace_find(engine, t, n, &ns, e); });
    EXPECT_EQ(prefix_has_feature(t, n), 0);
  }
  int32_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_count(engine, &count, e); });
  EXPECT_EQ(count, 1) << "a call that fails changes nothing";
}

TEST(Errors, GoodTextOfEveryLengthPasses) {
  const Engine engine = make_engine();
  int32_t first = 0, second = 0;
  const std::string name = "d\xc3\xa9j\xc3\xa0 \xe2\x82\xac \xf0\x9f\x8c\xb3 \xf4\x8f\xbf\xbf";
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_open(engine, name.c_str(), PREFIX_NUL, &first, e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_find(engine, (name + "rest").c_str(), name.size(), &second, e);
  });
  EXPECT_EQ(first, second);
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_namespace_open(engine, nullptr, 0, &first, e); });
  EXPECT_EQ(first, 0) << "no text is the empty namespace";
  const std::string with_zero("a\0b", 3);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_open(engine, with_zero.data(), 3, &first, e);
  });
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) { return prefix_namespace_find(engine, "a", 1, &second, e); },
         {"\"a\""});
}

// A length that no text has is refused before a byte is read.
TEST(Errors, ImpossibleLengthsAreRefused) {
  const Options options = make_options({});
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const prefix_token tokens[] = {1, 2};
  const int64_t offsets[] = {0, 1};
  for (const size_t n : {PREFIX_NUL - 1, PREFIX_NUL / 2, PREFIX_NUL / 4 + 1, size_t{1} << 50}) {
    const std::string shown = std::to_string(n);
    const auto refused = [&](auto call) { expect(PREFIX_ERR_OUT_OF_RANGE, call, {shown}); };
    Engine none;
    int32_t ns = 0;
    refused([&](prefix_error* e) { return prefix_options_set(options, "rows", n, "1", 1, e); });
    refused([&](prefix_error* e) { return prefix_options_set_json(options, "{}", n, e); });
    refused([&](prefix_error* e) { return prefix_engine_create("x", n, nullptr, none.out(), e); });
    refused([&](prefix_error* e) { return prefix_namespace_open(engine, "x", n, &ns, e); });
    refused([&](prefix_error* e) {
      return prefix_batch_add_embedding(batch, tokens, n, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_batch_add_logits(batch, tokens, 2, tokens, n, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_batch_add_choices(batch, tokens, 2, tokens, 1, offsets, n, nullptr, 0, nullptr,
                                      e);
    });
    refused([&](prefix_error* e) {
      return prefix_batch_add_choices(batch, tokens, 2, tokens, n, offsets, 2, nullptr, 0, nullptr,
                                      e);
    });
  }
  size_t count = 9;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(batch, &count, e); });
  EXPECT_EQ(count, 0u);
}

// Offsets are the one array whose elements point into another.
TEST(Errors, OffsetsThatPointElsewhereAreRefused) {
  const Batch batch = make_batch(nullptr);
  const prefix_token tokens[] = {1, 2, 3};
  const auto add = [&](std::vector<int64_t> offsets, prefix_status wanted,
                       const std::string& part = "") {
    expect(wanted,
           [&](prefix_error* e) {
             return prefix_batch_add_continuations(batch, tokens, 3, tokens, 3, offsets.data(),
                                                   offsets.size(), nullptr, 0, nullptr, e);
           },
           {part});
    expect(wanted,
           [&](prefix_error* e) {
             return prefix_batch_add_choices(batch, tokens, 3, tokens, 3, offsets.data(),
                                             offsets.size(), nullptr, 0, nullptr, e);
           },
           {part});
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  add({0}, PREFIX_ERR_INVALID_ARGUMENT, "there are no choices: n_offsets is 1; at least 2");
  const std::string most = std::to_string(kMax), all = "the length of all choices, 3";
  const std::pair<std::vector<int64_t>, std::string> bad[] = {
      {{0, 2}, "from 0 to 2; they must run from 0 to " + all},
      {{1, 3}, "from 1 to 3"},
      {{0, 4}, "from 0 to 4"},
      {{0, 2, 1, 3}, "offsets[2] is 1, below the one before it, 2"},
      {{0, 4, 3}, "offsets[1] is 4, above " + all},
      {{0, 4, 2, 3}, "offsets[1] is 4, above " + all},
      {{0, -1, 3}, "offsets[1] is -1, below the one before it, 0"},
      {{0, kMax, 3}, "offsets[1] is " + most + ", above " + all},
      {{-kMax - 1, 3}, "from -" + most.substr(0, most.size() - 1) + "8 to 3"},
      {{0, kMax}, "from 0 to " + most}};
  for (const auto& [offsets, part] : bad) add(offsets, PREFIX_ERR_OUT_OF_RANGE, part);
  size_t count = 9;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(batch, &count, e); });
  EXPECT_EQ(count, 0u);
}

// user_tag is the caller's business, whatever it is: continuation i gets user_tag + i, wrapping.
TEST(Errors, UserTagsMayBeAnyNumber) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const prefix_token tokens[] = {1, 2, 3};
  const int64_t offsets[] = {0, 1, 3};
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_continuations(batch, tokens, 3, tokens, 3, offsets, 3, nullptr, kMax,
                                          nullptr, e);
  });
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).user_tag, kMax);
  EXPECT_EQ(info_of(job, 1).user_tag, std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace prefix_abi
