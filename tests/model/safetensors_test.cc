#include "model/files/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "model/safetensors_writer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::Bytes;
using testing_support::entry;
using testing_support::expect_error;
using testing_support::safetensors_file;
using testing_support::TempFolder;

TensorSource read(Bytes bytes) {
  TensorSource source;
  read_safetensors(std::make_shared<InputFile>("file", std::move(bytes)), source);
  return source;
}

void expect_bad(Bytes bytes, std::initializer_list<std::string_view> parts) {
  expect_error(Code::kFormat, parts, [&] { read(std::move(bytes)); });
}

void expect_bad_header(const std::string& header, size_t data,
                       std::initializer_list<std::string_view> parts) {
  expect_bad(safetensors_file(header, data), parts);
}

TEST(Safetensors, FindsTensors) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," +
                             entry("b", "BF16", "[2,3]", "[4,16]") + "," +
                             entry("a", "F32", "[1]", "[0,4]") + "}  ";
  const TensorSource source = read(safetensors_file(header, 16));
  ASSERT_EQ(source.tensors().size(), 2u);
  const Tensor* b = source.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, TensorType::kBF16);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->bytes, 12u);
  EXPECT_EQ(source.find("a")->offset + 4, b->offset);
  EXPECT_EQ(source.find("c"), nullptr);
  EXPECT_EQ(source.find("__metadata__"), nullptr);
}

TEST(Safetensors, ReadsRowsOfUnalignedData) {
  // The header length makes every address odd.
  std::string header = "{" + entry("h", "F16", "[2,2]", "[0,8]") + "," +
                       entry("b", "BF16", "[1,2]", "[8,12]") + "," +
                       entry("f", "F32", "[1,1]", "[12,16]") + "}";
  if (header.size() % 2 == 0) header += " ";
  Bytes bytes = safetensors_file(header, 16);
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00};
  const uint16_t brains[] = {0x3f80, 0xc040};
  const float single = 1.25f;
  std::byte* data = bytes.data() + bytes.size() - 16;
  std::memcpy(data, halves, 8);
  std::memcpy(data + 8, brains, 4);
  std::memcpy(data + 12, &single, 4);
  const TensorSource source = read(bytes);
  float row[2];
  read_row(*source.find("h"), 0, row);
  EXPECT_EQ(row[0], 1.0f);
  EXPECT_EQ(row[1], -2.0f);
  read_row(*source.find("h"), 1, row);
  EXPECT_EQ(row[0], 0x1p-24f);
  EXPECT_EQ(row[1], INFINITY);
  read_row(*source.find("b"), 0, row);
  EXPECT_EQ(row[0], 1.0f);
  EXPECT_EQ(row[1], -3.0f);
  read_row(*source.find("f"), 0, row);
  EXPECT_EQ(row[0], 1.25f);
  expect_error(Code::kInternal, {}, [&] { read_row(*source.find("f"), 1, row); });
  expect_error(Code::kInternal, {}, [&] { read_row(*source.find("f"), -1, row); });
}

TEST(Safetensors, TakesEmptyTensorsAndRankZero) {
  const std::string header = "{" + entry("none", "F32", "[0,7]", "[0,0]") + "," +
                             entry("scalar", "F32", "[]", "[0,4]") + "," +
                             entry("last", "F16", "[3,0]", "[4,4]") + "}";
  const TensorSource source = read(safetensors_file(header, 4));
  EXPECT_EQ(source.find("none")->bytes, 0u);
  EXPECT_TRUE(source.find("scalar")->shape.empty());
  float value;
  read_row(*source.find("scalar"), 0, &value);
  EXPECT_NO_THROW(read_row(*source.find("last"), 2, &value));
  EXPECT_TRUE(read(safetensors_file("{}", 0)).tensors().empty());
}

TEST(Safetensors, ChecksTheHeaderLength) {
  expect_bad({}, {"\"file\" has 0 bytes", "takes 8"});
  expect_bad(Bytes(7), {"\"file\" has 7 bytes"});
  expect_bad(Bytes(8), {"does not start with {"});
  expect_bad(safetensors_file(3, "{}", 0), {"length is 3", "2 bytes behind"});
  expect_bad(safetensors_file(UINT64_MAX, "{}", 0), {"length is 18446744073709551615"});
  expect_bad(safetensors_file(UINT64_MAX - 7, "{}", 0), {"length is 18446744073709551608"});
  expect_bad(safetensors_file(uint64_t{1} << 63, "{}", 0), {"length is 9223372036854775808"});
}

TEST(Safetensors, LimitsTheHeaderTo100Megabytes) {
  std::string header = "{}" + std::string(kMaxSafetensorsHeader - 2, ' ');
  EXPECT_NO_THROW(read(safetensors_file(header, 0)));
  header += ' ';
  expect_bad(safetensors_file(header, 0), {"length is 100000001", "at most 100000000"});
}

TEST(Safetensors, ChecksTheHeaderText) {
  expect_bad_header(" {}", 0, {"does not start with {"});
  expect_bad_header("[]", 0, {"does not start with {"});
  expect_bad_header("{", 0, {"not valid JSON"});
  expect_bad_header("{}x", 0, {"not valid JSON", "byte 2"});
  expect_bad_header(std::string("{}\0", 3), 0, {"zero byte"});
  expect_bad_header("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}", 0,
                    {"deeper than 64"});
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  expect_bad_header("{" + a + "," + a + "}", 4, {"key \"a\" occurs twice"});
  expect_bad_header(
      "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      {"key \"dtype\" occurs twice"});
}

TEST(Safetensors, ChecksMetadata) {
  expect_bad_header("{\"__metadata__\":[]}", 0, {"__metadata__ is a list"});
  expect_bad_header("{\"__metadata__\":{\"format\":1}}", 0, {"\"format\" is 1", "not a string"});
}

TEST(Safetensors, ChecksEntries) {
  expect_bad_header("{\"a\":7}", 0, {"tensor \"a\"", "this is 7"});
  expect_bad_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, {"exactly dtype, shape and"});
  expect_bad_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
                    {"exactly dtype, shape and"});
  expect_bad_header("{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                    {"dtype is 5", "not a string"});
  expect_bad_header("{" + entry("a", "F32", "7", "[0,4]") + "}", 4, {"shape is 7"});
  expect_bad_header("{" + entry("a", "F32", "[1]", "[0]") + "}", 4, {"a list of 1 values"});
  expect_bad_header("{" + entry("a", "F32", "[1]", "[0,4,4]") + "}", 4, {"a list of 3 values"});
  EXPECT_NO_THROW(
      read(safetensors_file("{" + entry("a", "F32", "[1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4)));
  expect_bad_header("{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4,
                    {"list of 9 values", "at most 8"});
}

TEST(Safetensors, RefusesSizesThatAreNone) {
  for (const char* size :
       {"-1", "1.0", "1e0", "\"1\"", "null", "true", "[1]", "18446744073709551615",
        "9223372036854775807", "99999999999999999999999"}) {
    expect_bad_header("{" + entry("a", "F32", "[" + std::string(size) + "]", "[0,4]") + "}", 4,
                      {"tensor \"a\""});
    expect_bad_header("{" + entry("a", "F32", "[1]", "[0," + std::string(size) + "]") + "}", 4,
                      {"tensor \"a\""});
  }
}

TEST(Safetensors, RefusesProductsThatOverflow) {
  // 2^62 + 1 elements of 4 bytes are 4 bytes modulo 2^64.
  expect_bad_header("{" + entry("a", "F32", "[4611686018427387905]", "[0,4]") + "}", 4,
                    {"4611686018427387905"});
  expect_bad_header("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                    {"shape [4294967296, 4294967296]", "281474976710656"});
  expect_bad_header("{" + entry("a", "F32", "[281474976710657]", "[0,4]") + "}", 4,
                    {"281474976710657"});
}

TEST(Safetensors, RefusesOffsetsOutsideTheData) {
  expect_bad_header("{" + entry("a", "F32", "[1]", "[0,5]") + "}", 4,
                    {"[0, 5]", "4 bytes of data"});
  expect_bad_header("{" + entry("a", "F32", "[1]", "[4,0]") + "}", 4, {"[4, 0]"});
  expect_bad_header(
      "{" + entry("a", "F32", "[1]", "[4611686018427387900,4611686018427387904]") + "}", 4,
      {"4611686018427387904"});
}

TEST(Safetensors, ComparesShapeAndOffsets) {
  expect_bad_header("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, {"takes 8 bytes", "give 4"});
  expect_bad_header("{" + entry("a", "F16", "[]", "[0,4]") + "}", 4, {"takes 2 bytes", "give 4"});
}

TEST(Safetensors, RefusesOverlapHolesAndTrailingBytes) {
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  expect_bad_header("{" + a + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12,
                    {"tensor \"b\" begins at byte 4", "inside another", "8"});
  expect_bad_header("{" + a + "," + entry("b", "F32", "[2]", "[0,8]") + "}", 8, {"inside another"});
  expect_bad_header("{" + a + "," + entry("b", "F32", "[0]", "[4,4]") + "}", 8, {"inside another"});
  expect_bad_header("{" + a + "," + entry("b", "F32", "[1]", "[12,16]") + "}", 16,
                    {"tensor \"b\" begins at byte 12", "bytes from 8 on"});
  expect_bad_header("{" + entry("b", "F32", "[1]", "[4,8]") + "}", 8, {"bytes from 0 on"});
  expect_bad_header("{" + a + "}", 9, {"last 1 of 9 bytes"});
  expect_bad_header("{}", 3, {"last 3 of 3 bytes"});
}

// A file may have them; who uses one is told.
TEST(Safetensors, NamesUnsupportedTypes) {
  for (const char* dtype :
       {"F64", "I16", "U64", "BOOL", "F8_E5M2", "F4", "f32", "", "a, \\u0001"}) {
    const TensorSource source =
        read(safetensors_file("{" + entry("a", dtype, "[2,3]", "[0,4]") + "}", 4));
    const Tensor& t = *source.find("a");
    EXPECT_EQ(t.type, TensorType::kUnread);
    const std::string shown = std::string_view(dtype).starts_with("a,") ? "\"a, \\x01\"" : dtype;
    expect_error(Code::kUnsupportedModel, {"tensor \"a\" has dtype " + shown, "F32, F16, BF16"},
                 [&] { require_numbers(t); });
    float out[3];
    EXPECT_THROW(read_row(t, 0, out), Error);
  }
  // What a value takes is not known, but for the least of it.
  expect_bad_header("{" + entry("a", "F4", "[33]", "[0,4]") + "}", 4, {"33 values", "4 bytes"});
  expect_bad_header("{" + entry("a", "F4", "[2]", "[0,5]") + "}", 4, {"not inside the 4 bytes"});
}

// They are weights together with others only (quantised_test.cc).
TEST(Safetensors, ReadsPartsOfQuantisedWeights) {
  const auto bytes_of = [](const char* dtype) {
    return dtype[1] == '3' ? 4 : dtype[1] == '6' ? 8 : 1;
  };
  for (const char* dtype : {"I8", "U8", "I32", "I64", "F8_E4M3", "F8_E8M0"}) {
    const int size = bytes_of(dtype);
    const std::string offsets = "[0," + std::to_string(3 * size) + "]";
    const TensorSource source = read(safetensors_file("{" + entry("a", dtype, "[3]", offsets) + "}",
                                                      static_cast<size_t>(3 * size)));
    EXPECT_EQ(tensor_type_name(source.find("a")->type), dtype);
    EXPECT_TRUE(needs_scales(source.find("a")->type));
  }
}

TEST(Safetensors, RefusesAnyTruncation) {
  const Bytes whole = safetensors_file("{" + entry("a", "F32", "[2]", "[0,8]") + "}", 8);
  for (size_t size = 0; size < whole.size(); ++size)
    expect_bad(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)), {});
}

// Sharded models.
class ShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("1.safetensors",
                  safetensors_file("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 4));
    folder_.write("2.safetensors",
                  safetensors_file("{" + entry("b", "F32", "[1]", "[0,4]") + "}", 4));
  }
  TensorSource read_index(const std::string& map) {
    folder_.write("index.json", "{\"weight_map\":" + map + "}");
    TensorSource source;
    read_sharded_safetensors(Directory(folder_.path()), "index.json", source);
    return source;
  }
  void expect_bad_map(const std::string& map, std::initializer_list<std::string_view> parts,
                      Code code = Code::kFormat) {
    expect_error(code, parts, [&] { read_index(map); });
  }
  TempFolder folder_;
};

TEST_F(ShardsTest, JoinsFiles) {
  const TensorSource source = read_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  EXPECT_EQ(source.tensors().size(), 2u);
  EXPECT_NE(source.find("a"), nullptr);
  EXPECT_NE(source.find("b"), nullptr);
  EXPECT_NO_THROW(source.check_files());
}

TEST_F(ShardsTest, RefusesFileNamesWithAPath) {
  for (const char* name : {"../1.safetensors", "/etc/passwd", "./1.safetensors", "x/1.safetensors",
                           "..", ".", "", "x\\\\1.safetensors", "1.safetensors\\u0000", "a\\nb"})
    expect_bad_map("{\"a\":\"" + std::string(name) + "\"}", {"tensor \"a\"", "plain file name"});
  expect_bad_map("{\"a\":\"" + std::string(300, 'x') + "\"}", {"plain file name"});
  expect_bad_map("{\"a\":7}", {"is in 7", "plain file name"});
}

TEST_F(ShardsTest, RefusesLinksOutOfTheDirectory) {
  const TempFolder elsewhere;
  elsewhere.write("x", safetensors_file("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 4));
  std::filesystem::create_symlink(elsewhere / "x", folder_ / "link.safetensors");
  expect_bad_map(R"({"a":"link.safetensors"})", {"link.safetensors", "outside the directory"});
  std::filesystem::create_symlink("1.safetensors", folder_ / "inside.safetensors");
  EXPECT_EQ(read_index(R"({"a":"inside.safetensors"})").tensors().size(), 1u);
}

TEST_F(ShardsTest, FollowsTheLinksOfAHuggingFaceCache) {
  namespace fs = std::filesystem;
  const std::string snapshot = folder_ / "snapshots/0123abcd";
  fs::create_directories(snapshot);
  fs::create_directories(folder_ / "blobs");
  fs::rename(folder_ / "1.safetensors", folder_ / "blobs/deadbeef");
  folder_.write("blobs/index", std::string_view(R"({"weight_map":{"a":"1.safetensors"}})"));
  fs::create_symlink("../../blobs/deadbeef", snapshot + "/1.safetensors");
  fs::create_symlink("../../blobs/index", snapshot + "/model.safetensors.index.json");
  TensorSource source;
  read_sharded_safetensors(Directory(snapshot), "model.safetensors.index.json", source);
  EXPECT_NE(source.find("a"), nullptr);
}

TEST_F(ShardsTest, WantsEveryTensorExactlyOnce) {
  expect_bad_map(R"({"a":"1.safetensors","b":"1.safetensors"})",
                 {"tensor \"b\"", "not in", "1.safetensors"});
  expect_bad_map(R"({"b":"2.safetensors","c":"2.safetensors"})", {"tensor \"c\"", "not in"});
  expect_bad_map(R"({"a":"absent.safetensors"})", {"absent.safetensors"}, Code::kNotFound);
}

// As in Transformers: the index says what the model has, and where.
TEST_F(ShardsTest, LeavesWhatTheIndexDoesNotList) {
  folder_.write("3.safetensors", safetensors_file("{" + entry("a", "F16", "[2]", "[0,4]") + "," +
                                                      entry("c", "F32", "[1]", "[4,8]") + "," +
                                                      entry("d", "F32", "[1]", "[8,12]") + "}",
                                                  12));
  LogLevel level = LogLevel::kOff;
  std::string text;
  while (next_log(SIZE_MAX, &level, &text)) {
  }
  const TensorSource source =
      read_index(R"({"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors"})");
  EXPECT_EQ(source.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(source.find("a")->type, TensorType::kF32);
  ASSERT_TRUE(next_log(SIZE_MAX, &level, &text));
  EXPECT_EQ(level, LogLevel::kWarning);
  for (const char* part : {"3.safetensors", "2 tensors", "\"a\"", "not used"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_FALSE(next_log(SIZE_MAX, &level, &text)) << text;
}

TEST_F(ShardsTest, ChecksTheIndex) {
  const auto read_text = [&](const std::string& text) {
    return [this, text] {
      TensorSource source;
      folder_.write("index.json", text);
      read_sharded_safetensors(Directory(folder_.path()), "index.json", source);
    };
  };
  expect_error(Code::kFormat, {"index.json", "weight_map"}, read_text("{}"));
  expect_error(Code::kFormat, {"weight_map"}, read_text("[]"));
  expect_error(Code::kFormat, {"weight_map"}, read_text("{\"weight_map\":[]}"));
  expect_error(Code::kFormat, {"key \"a\" occurs twice"},
               read_text(R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})"));
  std::string map = "{";
  for (size_t i = 0; i <= kMaxShards; ++i)
    map += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"f" + std::to_string(i) + "\"";
  expect_bad_map(map + "}", {"1025 files", "at most 1024"});
}

}  // namespace
}  // namespace prefix
