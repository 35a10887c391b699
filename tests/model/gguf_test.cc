#include "model/files/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "model/gguf_writer.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::GgufType;
using testing_support::GgufWriter;

struct Read {
  GgufMetadata metadata;
  TensorSource tensors;
};

Read read(std::vector<std::byte> bytes) {
  Read r;
  read_gguf(std::make_shared<InputFile>("file", std::move(bytes)), r.metadata, r.tensors);
  return r;
}

void expect_bad(const GgufWriter& writer, std::initializer_list<std::string_view> parts,
                Code code = Code::kFormat) {
  expect_error(code, parts, [&] { read(writer.bytes()); });
}

TEST(Gguf, ReadsKeysOfEveryType) {
  GgufWriter w;
  w.key("u8", GgufType::kU8, uint8_t{255}).key("i8", GgufType::kI8, int8_t{-128});
  w.key("u16", GgufType::kU16, uint16_t{65535}).key("i16", GgufType::kI16, int16_t{-7});
  w.key("u32", GgufType::kU32, uint32_t{4000000000}).key("i32", GgufType::kI32, int32_t{-9});
  w.key("u64", GgufType::kU64, uint64_t{INT64_MAX}).key("i64", GgufType::kI64, INT64_MIN);
  w.key("f32", GgufType::kF32, 1.5f).key("f64", GgufType::kF64, 0.1);
  w.key("yes", GgufType::kBool, uint8_t{1}).key("no", GgufType::kBool, uint8_t{0});
  w.string("text", "hello").list("list", GgufType::kU16, 3, std::vector<std::byte>(6));
  const Read r = read(w.bytes());
  const auto integer = [&](const char* key) {
    return r.metadata.integer(key, INT64_MIN, INT64_MAX);
  };
  EXPECT_EQ(integer("u8"), 255);
  EXPECT_EQ(integer("i8"), -128);
  EXPECT_EQ(integer("u16"), 65535);
  EXPECT_EQ(integer("i16"), -7);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -9);
  EXPECT_EQ(integer("u64"), INT64_MAX);
  EXPECT_EQ(integer("i64"), INT64_MIN);
  EXPECT_EQ(r.metadata.number("f32"), 1.5);
  EXPECT_EQ(r.metadata.number("f64"), 0.1);
  EXPECT_EQ(r.metadata.number("u8"), 255.0);
  EXPECT_TRUE(r.metadata.boolean("yes", false));
  EXPECT_FALSE(r.metadata.boolean("no", true));
  EXPECT_EQ(r.metadata.text("text"), "hello");
  EXPECT_TRUE(r.metadata.has("list"));
  EXPECT_FALSE(r.metadata.has("absent"));
}

TEST(Gguf, ChecksTypesOfKeys) {
  GgufWriter w;
  w.integer("n", 7).string("s", "x").number("nan", NAN).key("b", GgufType::kBool, uint8_t{1});
  w.list("l", GgufType::kU8, 2, std::vector<std::byte>(2));
  const GgufMetadata m = read(w.bytes()).metadata;
  const auto bad = [](std::initializer_list<std::string_view> parts, auto action) {
    expect_error(Code::kFormat, parts, action);
  };
  bad({"\"n\" is 7", "[8, 9]"}, [&] { m.integer("n", 8, 9); });
  bad({"\"n\" is 7", "[8, 9]"}, [&] { m.integer("n", 8, 9, 8); });
  bad({"\"s\" is \"x\"", "integer"}, [&] { m.integer("s", 0, 9); });
  bad({"\"l\" is a list of 2 values", "integer"}, [&] { m.integer("l", 0, 9); });
  bad({"\"nan\" is nan", "finite"}, [&] { m.number("nan"); });
  bad({"\"b\" is true", "text"}, [&] { m.text("b"); });
  bad({"\"n\" is 7", "true or false"}, [&] { m.boolean("n", true); });
  bad({"\"absent\" is missing"}, [&] { m.integer("absent", 0, 9); });
  bad({"\"absent\" is missing"}, [&] { m.number("absent"); });
  bad({"\"absent\" is missing"}, [&] { m.text("absent"); });
  EXPECT_EQ(m.integer("absent", 0, 9, 4), 4);
}

TEST(Gguf, PlacesTensors) {
  GgufWriter w;
  w.f32("v", {3}, {1, 2, 3}).tensor("m", {32, 2, 5}, 8, 340).tensor("s", {1}, 1, 2);
  const Read r = read(w.bytes());
  const Tensor* m = r.tensors.find("m");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->shape, (std::vector<int64_t>{5, 2, 32}));
  EXPECT_EQ(m->type, TensorType::kQ8_0);
  EXPECT_EQ(m->bytes, 340u);
  EXPECT_EQ(m->offset - r.tensors.find("v")->offset, 32u);
  float v[3];
  read_row(*r.tensors.find("v"), 0, v);
  EXPECT_EQ(v[2], 3.0f);
  EXPECT_TRUE(read(GgufWriter().bytes()).tensors.tensors().empty());
}

TEST(Gguf, PlacesTensorsInAnyOrderOfTheList) {
  GgufWriter w;
  w.f32("a", {1}, {1}).f32("b", {1}, {2});
  std::swap(w.tensors[0], w.tensors[1]);
  float value;
  read_row(*read(w.bytes()).tensors.find("b"), 0, &value);
  EXPECT_EQ(value, 2.0f);
}

TEST(Gguf, ReadsVersionsTwoAndThree) {
  GgufWriter w;
  w.version = 2;
  EXPECT_NO_THROW(read(w.bytes()));
  for (const uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    w.version = version;
    expect_bad(w, {"version", std::to_string(version), "2 and 3"}, Code::kUnsupportedModel);
  }
  w.version = 0x03000000;
  expect_bad(w, {"big-endian"}, Code::kUnsupportedModel);
}

TEST(Gguf, WantsTheMagicNumber) {
  for (const char* text : {"", "G", "GGU", "GGML", "gguf"}) {
    std::vector<std::byte> bytes;
    for (const char* p = text; *p; ++p) bytes.push_back(static_cast<std::byte>(*p));
    expect_error(Code::kFormat, {"does not begin with GGUF"}, [&] { read(bytes); });
  }
}

TEST(Gguf, LimitsCounts) {
  GgufWriter w;
  w.key_count = static_cast<int64_t>(GgufLimits::kKeys);
  expect_bad(w, {"no name"});  // the count passes; the padding is no entry
  w.key_count += 1;
  expect_bad(w, {"65537 keys", "at most 65536"});
  w.key_count = INT64_MAX;
  expect_bad(w, {"keys", "at most 65536"});
  w.key_count = 0;
  w.tensor_count = static_cast<int64_t>(kMaxTensors);
  expect_bad(w, {"no name"});  // the count passes; the padding is no entry
  w.tensor_count += 1;
  expect_bad(w, {"1000001 tensors", "at most 1000000"});
}

TEST(Gguf, TakesTheMostKeys) {
  GgufWriter w;
  for (uint64_t i = 0; i < GgufLimits::kKeys; ++i)
    w.key("k" + std::to_string(i), GgufType::kU8, uint8_t{1});
  EXPECT_TRUE(read(w.bytes()).metadata.has("k65535"));
}

TEST(Gguf, RefusesDuplicates) {
  expect_bad(GgufWriter().integer("a", 1).integer("a", 1), {"key \"a\" occurs twice"});
  expect_bad(GgufWriter().f32("t", {1}, {1}).f32("t", {1}, {1}), {"tensor \"t\" occurs twice"});
}

TEST(Gguf, LimitsNamesAndStrings) {
  EXPECT_NO_THROW(read(GgufWriter().integer(std::string(65535, 'k'), 1).bytes()));
  expect_bad(GgufWriter().integer(std::string(65536, 'k'), 1),
             {"a key has 65536", "at most 65535"});
  expect_bad(GgufWriter().integer("", 1), {"a key has no name"});
  EXPECT_NO_THROW(read(GgufWriter().f32(std::string(1024, 't'), {1}, {1}).bytes()));
  expect_bad(GgufWriter().f32(std::string(1025, 't'), {1}, {1}), {"name has 1025", "at most 1024"});
  expect_bad(GgufWriter().f32("", {1}, {1}), {"a tensor has no name"});
  const std::string text(GgufLimits::kStringBytes, 'x');
  EXPECT_EQ(read(GgufWriter().string("s", text).bytes()).metadata.text("s").size(), text.size());
  expect_bad(GgufWriter().string("s", text + "x"), {"a string has 67108865", "at most 67108864"});
}

TEST(Gguf, ChecksStringLengthsAgainstTheFile) {
  for (const uint64_t length :
       {uint64_t{100}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    std::vector<std::byte> key;
    GgufWriter::text(key, "s");
    GgufWriter::put(key, GgufType::kString);
    GgufWriter::put(key, length);
    expect_bad(GgufWriter().raw(key), {"a string", std::to_string(length)});
    std::vector<std::byte> name;
    GgufWriter::put(name, length);
    expect_bad(GgufWriter().raw(name), {"a key", std::to_string(length)});
  }
}

TEST(Gguf, ChecksLists) {
  const auto list = [](uint32_t type, uint64_t length, size_t bytes) {
    return GgufWriter().list("l", type, length, std::vector<std::byte>(bytes));
  };
  EXPECT_NO_THROW(read(list(GgufType::kF64, 4, 32).bytes()));
  EXPECT_NO_THROW(read(list(GgufType::kString, 4, 32).bytes()));
  EXPECT_NO_THROW(read(list(GgufType::kString, 0, 0).bytes()));
  expect_bad(list(GgufType::kArray, 1, 32), {"\"l\" is a list of lists"});
  expect_bad(list(13, 1, 32), {"\"l\"", "unknown value type 13"});
  for (const uint64_t length : {uint64_t{1000}, uint64_t{1} << 32, uint64_t{1} << 61,
                                (uint64_t{1} << 61) + 1, UINT64_MAX}) {
    expect_bad(list(GgufType::kF64, length, 32), {"\"l\"", std::to_string(length)});
    expect_bad(list(GgufType::kString, length, 32), {"\"l\"", std::to_string(length)});
    expect_bad(list(GgufType::kU8, length, 32), {"\"l\"", std::to_string(length)});
  }
}

TEST(Gguf, ChecksValues) {
  expect_bad(GgufWriter().key("b", GgufType::kBool, uint8_t{2}), {"\"b\" is the boolean 2"});
  expect_bad(GgufWriter().key("u", GgufType::kU64, uint64_t{1} << 63),
             {"\"u\" is 9223372036854775808"});
  expect_bad(GgufWriter().key("x", 13, uint64_t{0}), {"\"x\" has the unknown value type 13"});
}

TEST(Gguf, ChecksAlignment) {
  for (const uint32_t alignment : {1u, 8u, 64u, 1u << 20}) {
    GgufWriter w;
    w.alignment = alignment;
    w.integer("general.alignment", alignment).f32("a", {1}, {1}).f32("b", {1}, {2});
    float value;
    read_row(*read(w.bytes()).tensors.find("b"), 0, &value);
    EXPECT_EQ(value, 2.0f);
  }
  expect_bad(GgufWriter().integer("general.alignment", 0), {"is 0", "[1, 1048576]"});
  expect_bad(GgufWriter().integer("general.alignment", 1u << 21), {"is 2097152", "[1, 1048576]"});
  expect_bad(GgufWriter().integer("general.alignment", 24), {"is 24", "power of two"});
  expect_bad(GgufWriter().string("general.alignment", "32"), {"general.alignment", "integer"});
  GgufWriter w;
  w.f32("a", {16}, std::vector<float>(16)).f32("b", {1}, {1});
  w.tensors[1].offset = 60;
  expect_bad(w, {"tensor \"b\" begins at byte 60", "alignment 32"});
}

TEST(Gguf, ChecksDimensions) {
  const auto tensor = [](std::vector<uint64_t> dimensions, uint32_t type = 0) {
    return GgufWriter().tensor("t", std::move(dimensions), type, 4);
  };
  EXPECT_NO_THROW(read(tensor({1, 1, 1, 1}).bytes()));
  expect_bad(tensor({}), {"\"t\" has 0 dimensions", "1 to 4"});
  expect_bad(tensor({1, 1, 1, 1, 1}), {"\"t\" has 5 dimensions", "1 to 4"});
  expect_bad(tensor({0}), {"\"t\" has a dimension of 0"});
  expect_bad(tensor({4, 0}), {"\"t\" has a dimension of 0"});
  expect_bad(tensor({UINT64_MAX}), {"\"t\" has a dimension of 18446744073709551615"});
  expect_bad(tensor({uint64_t{1} << 63}), {"\"t\""});
  // Products of 2^64 + 1 modulo 2^64, and of exactly 2^64.
  expect_bad(tensor({274177, 67280421310721}), {"\"t\"", "281474976710656"});
  expect_bad(tensor({1ull << 32, 1ull << 32}), {"\"t\"", "281474976710656"});
  expect_bad(tensor({1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}), {"\"t\""});
  expect_bad(tensor({1ull << 48}), {"\"t\" needs 1125899906842624 bytes"});
  expect_bad(tensor({33}, 8), {"rows of 33", "32 of a Q8_0 block"});
  expect_bad(tensor({128, 2}, 12), {"rows of 128", "256 of a Q4_K block"});
  expect_bad(tensor({384}, 10), {"rows of 384", "256 of a Q2_K block"});
  expect_bad(tensor({32}, 11), {"rows of 32", "256 of a Q3_K block"});
  expect_bad(tensor({40}, 20), {"rows of 40", "32 of a IQ4_NL block"});
  expect_bad(tensor({128}, 23), {"rows of 128", "256 of a IQ4_XS block"});
  expect_bad(tensor({16}, 39), {"rows of 16", "32 of a MXFP4 block"});
  // One byte fewer than the block has.
  for (const auto& [type, values, bytes] :
       {std::tuple(10u, 256u, 84u), std::tuple(11u, 256u, 110u), std::tuple(20u, 32u, 18u),
        std::tuple(23u, 256u, 136u), std::tuple(39u, 32u, 17u)})
    expect_bad(GgufWriter().tensor("t", {values}, type, bytes - 1),
               {"\"t\" needs " + std::to_string(bytes) + " bytes"});
}

TEST(Gguf, NamesUnsupportedTypes) {
  const auto expect_unsupported = [](uint32_t type, std::string_view name) {
    GgufWriter w;
    w.tensor("t", {256}, type, 256);
    expect_bad(w, {"tensor \"t\" has type", name, "Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4)"},
               Code::kUnsupportedModel);
  };
  expect_unsupported(9, "Q8_1");
  expect_unsupported(15, "Q8_K");
  expect_unsupported(24, "I8");
  expect_unsupported(28, "F64");
  expect_unsupported(31, "number 31");
  expect_unsupported(40, "NVFP4");
  expect_unsupported(41, "number 41");
  expect_unsupported(0xffffffff, "number 4294967295");
}

TEST(Gguf, RefusesOverlapHolesAndTrailingBytes) {
  GgufWriter two;
  two.f32("a", {16}, std::vector<float>(16)).f32("b", {8}, std::vector<float>(8));
  EXPECT_NO_THROW(read(two.bytes()));
  GgufWriter w = two;
  w.tensors[1].offset = 32;
  expect_bad(w, {"tensor \"b\" begins at byte 32", "inside another tensor", "64"});
  w = two;
  w.tensors[1].offset = 0;
  expect_bad(w, {"begins at byte 0", "inside another tensor"});
  w = two;
  w.tensors[1].offset = 96;
  w.data.resize(128);
  expect_bad(w, {"tensor \"b\" begins at byte 96", "hole"});
  w = two;
  w.tensors[0].offset = 64;
  w.tensors[1].offset = 128;
  w.data.resize(160);
  expect_bad(w, {"tensor \"a\" begins at byte 64", "hole"});
  w = two;
  w.data.resize(97);
  expect_bad(w, {"last 1 of 97 bytes"});
}

TEST(Gguf, TakesPaddingBehindTheLastTensor) {
  GgufWriter w;
  w.f32("a", {1}, {1});
  w.data.resize(32);
  EXPECT_NO_THROW(read(w.bytes()));
  w.data.resize(33);
  expect_bad(w, {"last 1 of 33 bytes"});
}

TEST(Gguf, ChecksOffsetsAgainstTheFile) {
  for (const uint64_t offset :
       {uint64_t{32}, uint64_t{1} << 32, (uint64_t{1} << 63), UINT64_MAX - 31}) {
    GgufWriter w;
    w.f32("a", {8}, std::vector<float>(8));
    w.tensors[0].offset = offset;
    expect_bad(w, {"tensor \"a\" needs 32 bytes at byte", std::to_string(offset)});
  }
  GgufWriter w;
  w.tensor("a", {1024, 1024}, 0, 64);
  expect_bad(w, {"needs 4194304 bytes", "has 64 bytes"});
}

TEST(Gguf, RefusesPartsOfSplitModels) {
  EXPECT_NO_THROW(read(GgufWriter().key("split.count", GgufType::kU16, uint16_t{1}).bytes()));
  expect_bad(GgufWriter().key("split.count", GgufType::kU16, uint16_t{3}), {"3 parts", "merge"},
             Code::kUnsupportedModel);
}

TEST(Gguf, RefusesAnyTruncation) {
  GgufWriter w;
  w.integer("general.alignment", 32)
      .string("s", "text")
      .list("l", GgufType::kU8, 3, std::vector<std::byte>(3));
  w.f32("a", {4}, {1, 2, 3, 4}).f32("b", {3}, {1, 2, 3});
  const std::vector<std::byte> whole = w.bytes();
  for (size_t size = 0; size < whole.size(); ++size)
    expect_error(Code::kFormat, {"file"}, [&] {
      read(std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    });
}

TEST(Gguf, MessagesStayPrintable) {
  expect_bad(GgufWriter().f32("\xff\x01 evil\n", {0}, {}), {"\"\\xff\\x01 evil\\x0a\""});
  expect_bad(GgufWriter().f32(std::string(1000, 'n'), {0}, {}), {std::string(80, 'n') + "...\""});
}

}  // namespace
}  // namespace prefix
