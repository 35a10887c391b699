#include "model/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/status.h"

namespace prefix {
namespace {

constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 1000000;
constexpr uint64_t kMaxName = 4096;
constexpr uint64_t kMaxString = 64u << 20;
constexpr uint64_t kMaxNumbers = 1 << 20;  // values kept of a numeric array
constexpr uint32_t kMaxDimensions = 4;

enum : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64,
};

// The bytes of the file with a read position; every read is checked.
class Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  template <typename T>
  T scalar(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }
  std::string string(uint64_t most, const char* what) {
    const auto length = scalar<uint64_t>(what);
    if (length > most) bad(what, " has ", length, " bytes; at most ", most, " are allowed");
    return std::string(reinterpret_cast<const char*>(take(length, what)), length);
  }
  void skip_string(const char* what) {
    const auto length = scalar<uint64_t>(what);
    if (length > kMaxString) bad(what, " has ", length, " bytes; at most ", kMaxString);
    take(length, what);
  }
  const std::byte* take(uint64_t n, const char* what) {
    if (n > bytes_.size() - at_)
      bad(what, " needs ", n, " bytes at ", at_, "; the file has ", bytes_.size());
    const std::byte* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }
  uint64_t at() const { return at_; }
  template <typename... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Code::kFormat, path_, ": ", parts...);
  }

 private:
  const std::string& path_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

size_t scalar_bytes(uint32_t type) {
  switch (type) {
    case kU8: case kI8: case kBool: return 1;
    case kU16: case kI16: return 2;
    case kU32: case kI32: case kF32: return 4;
    case kU64: case kI64: case kF64: return 8;
    default: return 0;
  }
}

GgufValue read_scalar(Reader& in, uint32_t type, const std::string& key) {
  const char* what = key.c_str();
  switch (type) {
    case kU8: return {int64_t{in.scalar<uint8_t>(what)}};
    case kI8: return {int64_t{in.scalar<int8_t>(what)}};
    case kU16: return {int64_t{in.scalar<uint16_t>(what)}};
    case kI16: return {int64_t{in.scalar<int16_t>(what)}};
    case kU32: return {int64_t{in.scalar<uint32_t>(what)}};
    case kI32: return {int64_t{in.scalar<int32_t>(what)}};
    case kF32: return {double{in.scalar<float>(what)}};
    case kF64: return {in.scalar<double>(what)};
    case kI64: return {in.scalar<int64_t>(what)};
    case kU64: {
      const auto v = in.scalar<uint64_t>(what);
      if (v > INT64_MAX) in.bad("key \"", key, "\" is ", v, ", beyond ", INT64_MAX);
      return {static_cast<int64_t>(v)};
    }
    case kBool: {
      const auto v = in.scalar<uint8_t>(what);
      if (v > 1) in.bad("key \"", key, "\" is the boolean ", int{v}, "; it must be 0 or 1");
      return {v == 1};
    }
    default: in.bad("key \"", key, "\" has the unknown type ", type);
  }
}

GgufValue read_value(Reader& in, const std::string& key) {
  const auto type = in.scalar<uint32_t>("a value type");
  if (type == kString) return {in.string(kMaxString, key.c_str())};
  if (type != kArray) return read_scalar(in, type, key);
  const auto element = in.scalar<uint32_t>("an array type");
  const auto count = in.scalar<uint64_t>("an array length");
  if (element == kString) {
    for (uint64_t i = 0; i < count; ++i) in.skip_string(key.c_str());
    return {std::string(), count};
  }
  const size_t bytes = scalar_bytes(element);
  if (bytes == 0) in.bad("key \"", key, "\" is an array of the unknown type ", element);
  if (count > UINT64_MAX / 8) in.bad("key \"", key, "\" has ", count, " values");
  if (count > kMaxNumbers || element == kBool) {
    in.take(count * bytes, key.c_str());
    return {std::string(), count};
  }
  std::vector<double> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    const GgufValue v = read_scalar(in, element, key);
    const auto* whole = std::get_if<int64_t>(&v.value);
    numbers.push_back(whole ? static_cast<double>(*whole) : std::get<double>(v.value));
  }
  return {std::move(numbers), count};
}

TensorType tensor_type(uint32_t type, const std::string& path, const std::string& name) {
  switch (type) {
    case 0: return TensorType::kF32;
    case 1: return TensorType::kF16;
    case 2: return TensorType::kQ4_0;
    case 3: return TensorType::kQ4_1;
    case 6: return TensorType::kQ5_0;
    case 7: return TensorType::kQ5_1;
    case 8: return TensorType::kQ8_0;
    case 12: return TensorType::kQ4_K;
    case 13: return TensorType::kQ5_K;
    case 14: return TensorType::kQ6_K;
    case 30: return TensorType::kBF16;
    default: break;
  }
  static constexpr const char* kNames[] = {
      "", "", "", "", "Q4_2", "Q4_3", "", "", "", "Q8_1", "Q2_K", "Q3_K", "", "", "", "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16",
      "I32", "I64", "F64", "IQ1_M", "", "", "", "", "TQ1_0", "TQ2_0"};
  const char* known = type < std::size(kNames) ? kNames[type] : "";
  fail(Code::kUnsupportedModel, path, ": tensor \"", name, "\" has type ",
       *known ? known : "number ", *known ? "" : std::to_string(type),
       " (supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K)");
}

struct Placed {
  Tensor tensor;
  uint64_t offset;
};

Placed read_info(Reader& in, const std::string& path) {
  Placed p;
  p.tensor.name = in.string(kMaxName, "a tensor name");
  const auto dimensions = in.scalar<uint32_t>("a dimension count");
  if (dimensions == 0 || dimensions > kMaxDimensions)
    in.bad("tensor \"", p.tensor.name, "\" has ", dimensions, " dimensions; 1 to ", kMaxDimensions,
           " are allowed");
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto d = in.scalar<uint64_t>("a dimension");
    if (d == 0 || d > uint64_t{1} << 48)
      in.bad("tensor \"", p.tensor.name, "\" has a dimension of ", d);
    p.tensor.shape.insert(p.tensor.shape.begin(), static_cast<int64_t>(d));  // fastest comes first
  }
  p.tensor.type = tensor_type(in.scalar<uint32_t>("a tensor type"), path, p.tensor.name);
  p.offset = in.scalar<uint64_t>("a tensor offset");
  const int64_t per = block_values(p.tensor.type);
  if (p.tensor.shape.back() % per != 0)
    in.bad("tensor \"", p.tensor.name, "\" has rows of ", p.tensor.shape.back(), " values, not a ",
           "multiple of the ", per, " of a ", tensor_type_name(p.tensor.type), " block");
  const int64_t count = element_count(p.tensor.name, p.tensor.shape);
  p.tensor.bytes = static_cast<size_t>(count / per * block_bytes(p.tensor.type));
  return p;
}

}  // namespace

int64_t GgufMetadata::integer(const std::string& key, int64_t minimum, int64_t maximum) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(Code::kFormat, "GGUF key \"", key, "\" is missing");
  const auto* value = std::get_if<int64_t>(&found->second.value);
  if (!value) fail(Code::kFormat, "GGUF key \"", key, "\" is not an integer");
  if (*value < minimum || *value > maximum)
    fail(Code::kFormat, "GGUF key \"", key, "\" is ", *value, ", outside [", minimum, ", ", maximum,
         "]");
  return *value;
}

int64_t GgufMetadata::integer(const std::string& key, int64_t minimum, int64_t maximum,
                              int64_t absent) const {
  return has(key) ? integer(key, minimum, maximum) : absent;
}

double GgufMetadata::number(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(Code::kFormat, "GGUF key \"", key, "\" is missing");
  if (const auto* whole = std::get_if<int64_t>(&found->second.value))
    return static_cast<double>(*whole);
  const auto* value = std::get_if<double>(&found->second.value);
  if (!value || !std::isfinite(*value))
    fail(Code::kFormat, "GGUF key \"", key, "\" is not a finite number");
  return *value;
}

double GgufMetadata::number(const std::string& key, double absent) const {
  return has(key) ? number(key) : absent;
}

std::string GgufMetadata::text(const std::string& key, const std::string& absent) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return absent;
  const auto* value = std::get_if<std::string>(&found->second.value);
  if (!value || found->second.array_length) fail(Code::kFormat, "GGUF key \"", key, "\" is not text");
  return *value;
}

void read_gguf(const std::string& path, GgufMetadata& metadata, TensorSource& out) {
  auto file = std::make_shared<MappedFile>(path);
  const auto bytes = file->bytes();
  Reader in(path, bytes);
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0)
    in.bad("it does not begin with GGUF");
  in.take(4, "the magic number");
  const auto version = in.scalar<uint32_t>("the version");
  if (version != 2 && version != 3)
    fail(Code::kUnsupportedModel, path, ": GGUF version ", version, " (supported: 2 and 3)");
  const auto tensors = in.scalar<uint64_t>("the tensor count");
  const auto keys = in.scalar<uint64_t>("the key count");
  if (tensors > kMaxTensors) in.bad("it lists ", tensors, " tensors; at most ", kMaxTensors);
  if (keys > kMaxKeys) in.bad("it lists ", keys, " keys; at most ", kMaxKeys);

  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = in.string(kMaxName, "a key");
    if (!metadata.values_.emplace(key, read_value(in, key)).second)
      in.bad("key \"", key, "\" occurs twice");
  }
  const int64_t alignment = metadata.integer("general.alignment", 1, 1 << 20, 32);
  if ((alignment & (alignment - 1)) != 0)
    in.bad("general.alignment is ", alignment, ", not a power of two");

  std::vector<Placed> placed;
  for (uint64_t i = 0; i < tensors; ++i) placed.push_back(read_info(in, path));
  const auto unit = static_cast<uint64_t>(alignment);
  const uint64_t base = (in.at() + unit - 1) / unit * unit;
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  std::vector<Tensor> list;
  for (Placed& p : placed) {
    const Tensor& t = p.tensor;
    if (p.offset % unit != 0)
      in.bad("tensor \"", t.name, "\" begins at ", p.offset, ", not a multiple of ", alignment);
    if (p.offset < end) in.bad("tensor \"", t.name, "\" overlaps the one before it");
    if (base > bytes.size() || p.offset > bytes.size() - base ||
        t.bytes > bytes.size() - base - p.offset)
      in.bad("tensor \"", t.name, "\" needs ", t.bytes, " bytes at ", p.offset,
             " of the data; the file ends before that");
    p.tensor.data = bytes.data() + base + p.offset;
    end = p.offset + t.bytes;
    list.push_back(std::move(p.tensor));
  }
  out.add(std::move(file), std::move(list));
}

}  // namespace prefix
