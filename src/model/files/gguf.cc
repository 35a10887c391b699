#include "model/files/gguf.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "model/load/packed_model.h"

namespace prefix {
namespace {

// Value types of the metadata.
enum : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = kGgufString,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// The file with a read position; every read is checked. What is read goes through a window, so that
// each value is read once and means the same thing from then on.
class Reader {
 public:
  explicit Reader(const InputFile& file) : file_(file) {}

  template <typename T>
  T scalar(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }
  std::string string(uint64_t max, const char* what) {
    const uint64_t length = string_length(max, what);
    return std::string(reinterpret_cast<const char*>(take(length, what)), length);
  }
  void skip_string(uint64_t max, const char* what) { skip(string_length(max, what), what); }
  void skip(uint64_t n, const char* what) {
    if (n > left())
      bad(what, " needs ", n, " bytes at byte ", at_, "; the file has ", file_.size(), " bytes");
    at_ += n;
  }
  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }
  template <typename... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Code::kFormat, file_.name(), ": ", parts...);
  }
  template <typename... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    fail(Code::kUnsupportedModel, file_.name(), ": ", parts...);
  }

 private:
  static constexpr uint64_t kWindow = 1 << 16;

  // The next n bytes, until the next call.
  const std::byte* take(uint64_t n, const char* what) {
    const uint64_t begin = at_;
    skip(n, what);
    if (begin < window_at_ || at_ > window_at_ + window_.size()) {
      window_.resize(std::min(std::max(n, kWindow), file_.size() - begin));
      window_at_ = begin;
      file_.read(begin, window_.size(), window_.data());
    }
    return window_.data() + (begin - window_at_);
  }
  uint64_t string_length(uint64_t max, const char* what) {
    const auto length = scalar<uint64_t>(what);
    if (length > max) bad(what, " has ", length, " bytes; at most ", max, " are allowed");
    return length;
  }

  const InputFile& file_;
  uint64_t at_ = 0;
  std::vector<std::byte> window_;  // bytes [window_at_, ...) of the file
  uint64_t window_at_ = 0;
};

// 0 for strings, lists and unknown types.
uint64_t scalar_bytes(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 0;
  }
}

GgufValue read_scalar(Reader& in, uint32_t type, const std::string& key) {
  constexpr const char* kWhat = "a value";
  switch (type) {
    case kU8:
      return int64_t{in.scalar<uint8_t>(kWhat)};
    case kI8:
      return int64_t{in.scalar<int8_t>(kWhat)};
    case kU16:
      return int64_t{in.scalar<uint16_t>(kWhat)};
    case kI16:
      return int64_t{in.scalar<int16_t>(kWhat)};
    case kU32:
      return int64_t{in.scalar<uint32_t>(kWhat)};
    case kI32:
      return int64_t{in.scalar<int32_t>(kWhat)};
    case kI64:
      return in.scalar<int64_t>(kWhat);
    case kU64: {
      const auto v = in.scalar<uint64_t>(kWhat);
      if (v > INT64_MAX) in.bad("key ", quote(key), " is ", v, "; at most ", INT64_MAX);
      return static_cast<int64_t>(v);
    }
    case kF32:
      return double{in.scalar<float>(kWhat)};
    case kF64:
      return in.scalar<double>(kWhat);
    case kBool: {
      const auto v = in.scalar<uint8_t>(kWhat);
      if (v > 1) in.bad("key ", quote(key), " is the boolean ", int{v}, "; it must be 0 or 1");
      return v == 1;
    }
    default:
      in.bad("key ", quote(key), " has the unknown value type ", type);
  }
}

GgufValue read_list(Reader& in, const std::string& key) {
  const auto type = in.scalar<uint32_t>("a list type");
  const auto length = in.scalar<uint64_t>("a list length");
  if (type == kArray) in.bad("key ", quote(key), " is a list of lists");
  // A string takes 8 bytes at least, so this also bounds the loop below by the file.
  const uint64_t each = type == kString ? 8 : scalar_bytes(type);
  if (each == 0) in.bad("key ", quote(key), " is a list of the unknown value type ", type);
  if (length > in.left() / each)
    in.bad("key ", quote(key), " is a list of ", length, " values of ", each,
           " bytes or more; the file has ", in.left(), " bytes left");
  GgufList list{length, {}, {}};
  const bool whole = type != kString && type != kF32 && type != kF64;
  const bool kept = length <= GgufList::most(key);
  if (type == kString && kept)
    for (uint64_t i = 0; i < length; ++i)
      list.texts.push_back(in.string(GgufLimits::kStringBytes, "a string of a list"));
  else if (type == kString)
    for (uint64_t i = 0; i < length; ++i)
      in.skip_string(GgufLimits::kStringBytes, "a string of a list");
  else if (whole && kept)
    for (uint64_t i = 0; i < length; ++i) {
      const GgufValue value = read_scalar(in, type, key);
      const auto* flag = std::get_if<bool>(&value);
      list.values.push_back(flag ? int64_t{*flag} : std::get<int64_t>(value));
    }
  else
    in.skip(length * each, "a list");
  return list;
}

void read_key(Reader& in, GgufMetadata& metadata) {
  const std::string key = in.string(GgufLimits::kKeyBytes, "a key");
  if (key.empty()) in.bad("a key has no name");
  const auto type = in.scalar<uint32_t>("a value type");
  GgufValue value = type == kString  ? GgufValue(in.string(GgufLimits::kStringBytes, "a string"))
                    : type == kArray ? read_list(in, key)
                                     : read_scalar(in, type, key);
  if (!metadata.add(key, std::move(value))) in.bad("key ", quote(key), " occurs twice");
}

// The numbers of the types that are read, in the order of messages.
constexpr std::pair<uint32_t, TensorType> kTensorTypes[] = {
    {0, TensorType::kF32},    {1, TensorType::kF16},     {30, TensorType::kBF16},
    {8, TensorType::kQ8_0},   {2, TensorType::kQ4_0},    {3, TensorType::kQ4_1},
    {6, TensorType::kQ5_0},   {7, TensorType::kQ5_1},    {10, TensorType::kQ2_K},
    {11, TensorType::kQ3_K},  {12, TensorType::kQ4_K},   {13, TensorType::kQ5_K},
    {14, TensorType::kQ6_K},  {20, TensorType::kIQ4_NL}, {23, TensorType::kIQ4_XS},
    {39, TensorType::kMXFP4},
};
constexpr uint32_t kBytesOfMatrix = 24;  // I8, in packed models only

TensorType tensor_type(const Reader& in, uint32_t type, const std::string& name, bool packed) {
  if (packed && type == kBytesOfMatrix) return TensorType::kI8;
  std::string supported;
  for (const auto& [number, known] : kTensorTypes) {
    if (number == type) return known;
    supported += (supported.empty() ? "" : ", ") + std::string(ops::tensor_type_name(known));
  }
  // Names of the numbers that exist but are not read here.
  static constexpr const char* kNames[] = {
      "",        "",      "",      "",      "Q4_2",  "Q4_3", "",     "",        "",
      "Q8_1",    "",      "",      "",      "",      "",     "Q8_K", "IQ2_XXS", "IQ2_XS",
      "IQ3_XXS", "IQ1_S", "",      "IQ3_S", "IQ2_S", "",     "I8",   "I16",     "I32",
      "I64",     "F64",   "IQ1_M", "",      "",      "",     "",     "TQ1_0",   "TQ2_0",
      "",        "",      "",      "",      "NVFP4"};
  const std::string known = type < std::size(kNames) ? kNames[type] : "";
  in.unsupported("tensor ", quote(name), " has type ",
                 known.empty() ? "number " + std::to_string(type) : known,
                 " (supported: ", supported, ")");
}

struct Placed {
  Tensor tensor;
  uint64_t offset = 0;  // from the begin of the data
};

Placed read_info(Reader& in, bool packed) {
  Placed p;
  Tensor& t = p.tensor;
  t.name = in.string(GgufLimits::kTensorNameBytes, "a tensor name");
  if (t.name.empty()) in.bad("a tensor has no name");
  const auto dimensions = in.scalar<uint32_t>("a dimension count");
  if (dimensions == 0 || dimensions > GgufLimits::kDimensions)
    in.bad("tensor ", quote(t.name), " has ", dimensions, " dimensions; 1 to ",
           GgufLimits::kDimensions, " are allowed");
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto d = in.scalar<uint64_t>("a dimension");
    if (d == 0 || d > uint64_t{kMaxTensorValues})
      in.bad("tensor ", quote(t.name), " has a dimension of ", d, ", outside [1, ",
             kMaxTensorValues, "]");
    t.shape.insert(t.shape.begin(), static_cast<int64_t>(d));  // the fastest comes first
  }
  t.type = tensor_type(in, in.scalar<uint32_t>("a tensor type"), t.name, packed);
  p.offset = in.scalar<uint64_t>("a tensor offset");
  const int64_t per = block_values(t.type);
  if (t.shape.back() % per != 0)
    in.bad("tensor ", quote(t.name), " has rows of ", t.shape.back(),
           " values, not a multiple of the ", per, " of a ", tensor_type_name(t.type), " block");
  const int64_t count = element_count(t.name, t.shape);
  t.bytes = static_cast<size_t>(count / per * block_bytes(t.type));
  return p;
}

uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

// Gives every tensor its bytes: one behind the other, each padded to `alignment`, up to the end.
std::vector<Tensor> place(Reader& in, std::vector<Placed> placed, uint64_t alignment,
                          const InputFile& file) {
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  const uint64_t base = round_up(in.at(), alignment);
  const uint64_t available = base < file.size() ? file.size() - base : 0;
  uint64_t next = 0;
  std::vector<Tensor> tensors;
  tensors.reserve(placed.size());
  for (Placed& p : placed) {
    Tensor& t = p.tensor;
    if (p.offset % alignment != 0)
      in.bad("tensor ", quote(t.name), " begins at byte ", p.offset,
             " of the data, not a multiple of the alignment ", alignment);
    if (p.offset > available || t.bytes > available - p.offset)
      in.bad("tensor ", quote(t.name), " needs ", t.bytes, " bytes at byte ", p.offset,
             " of the data, which has ", available, " bytes");
    if (p.offset != next)
      in.bad("tensor ", quote(t.name), " begins at byte ", p.offset, " of the data, ",
             p.offset < next ? "inside another tensor; the next free byte is "
                             : "leaving a hole; the tensor before it ends at ",
             next);
    t.file = &file;
    t.offset = base + p.offset;
    next = round_up(p.offset + t.bytes, alignment);
    tensors.push_back(std::move(t));
  }
  if (available > next)
    in.bad("the last ", available - next, " of ", available, " bytes of data belong to no tensor");
  return tensors;
}

struct Start {
  uint64_t tensors = 0;
  GgufKeys keys;
};

// All that comes before the infos of tensors.
Start read_start(Reader& in, const InputFile& file, GgufMetadata& metadata) {
  Start start;
  constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
  if (file.size() < 4 || in.scalar<uint32_t>("the magic number") != kMagic)
    in.bad("it does not begin with GGUF");
  const auto version = start.keys.version = in.scalar<uint32_t>("the version");
  if ((version & 0xffff) == 0 && version != 0)
    in.unsupported("it is big-endian (only little-endian files are supported)");
  if (version != 2 && version != 3)
    in.unsupported("GGUF version ", version, " (supported: 2 and 3)");
  start.tensors = in.scalar<uint64_t>("the tensor count");
  start.keys.count = in.scalar<uint64_t>("the key count");
  if (start.tensors > kMaxTensors)
    in.bad("it lists ", start.tensors, " tensors; at most ", kMaxTensors, " are allowed");
  if (start.keys.count > GgufLimits::kKeys)
    in.bad("it lists ", start.keys.count, " keys; at most ", GgufLimits::kKeys, " are allowed");

  start.keys.begin = in.at();
  for (uint64_t i = 0; i < start.keys.count; ++i) read_key(in, metadata);
  start.keys.end = in.at();
  const int64_t parts = metadata.integer("split.count", 0, INT64_MAX, 1);
  if (parts > 1)
    in.unsupported("it is one of ", parts, " parts of a split model; merge them into one file");
  const int64_t alignment = metadata.integer("general.alignment", 1, GgufLimits::kAlignment, 32);
  if ((alignment & (alignment - 1)) != 0)
    in.bad("general.alignment is ", alignment, ", not a power of two");
  start.keys.alignment = static_cast<uint64_t>(alignment);
  return start;
}

}  // namespace

void read_gguf(std::shared_ptr<const InputFile> file, GgufMetadata& metadata, TensorSource& out) {
  Reader in(*file);
  const Start start = read_start(in, *file, metadata);
  const bool packed = metadata.has(kPackedKey);
  std::vector<Placed> placed;
  for (uint64_t i = 0; i < start.tensors; ++i) placed.push_back(read_info(in, packed));
  std::vector<Tensor> tensors = place(in, std::move(placed), start.keys.alignment, *file);
  out.add(std::move(file), std::move(tensors));
}

GgufKeys find_gguf_keys(const InputFile& file) {
  Reader in(file);
  GgufMetadata metadata;
  return read_start(in, file, metadata).keys;
}

uint32_t gguf_type(TensorType type) {
  for (const auto& [number, known] : kTensorTypes)
    if (known == type) return number;
  PREFIX_CHECK(type == TensorType::kI8);
  return kBytesOfMatrix;
}

}  // namespace prefix
