#include "model_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common.h"

namespace prefix_cli {
namespace {

// Far above every real header, far below what would hurt.
constexpr uint64_t kMaxHeader = uint64_t{256} << 20;
constexpr uint64_t kMaxCount = uint64_t{1} << 24;

const char* group_of(const std::string& name) {
  const auto has = [&name](const char* part) { return name.find(part) != std::string::npos; };
  if (has("norm")) return "norm";
  if (has("embed") || has("embd")) return "embedding";
  if (has("attn") || has("attention")) return "attention";
  if (has("mlp") || has("ffn")) return "mlp";
  if (name == "lm_head.weight" || name == "output.weight") return "output";
  return "other";
}

template <typename T>
T read_number(std::istream& in) {
  std::array<char, sizeof(T)> bytes{};
  if (!in.read(bytes.data(), bytes.size())) fail("the file ends inside its header");
  T value = 0;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

void read_safetensors(const std::filesystem::path& path, ModelHeader& header) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot read ", shown(path.string()));
  const auto size = read_number<uint64_t>(in);
  if (size > kMaxHeader)
    fail(shown(path.string()), ": the header has ", size, " bytes; the limit is ", kMaxHeader);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    fail(shown(path.string()), " ends inside its header");
  const auto json = nlohmann::json::parse(text);
  for (const auto& [name, tensor] : json.items()) {
    if (name == "__metadata__") continue;
    header.add_tensor(name, tensor.at("dtype"), tensor.at("shape").get<std::vector<int64_t>>());
  }
}

ModelHeader read_directory(const std::filesystem::path& path) {
  ModelHeader header;
  header.format = "safetensors";
  std::ifstream in(path / "config.json");
  if (!in) fail("cannot read ", shown((path / "config.json").string()));
  const auto config = nlohmann::json::parse(in);
  if (config.contains("architectures") && !config["architectures"].empty())
    header.architecture = config["architectures"][0];
  else
    header.architecture = config.value("model_type", "unknown");
  constexpr std::pair<const char*, const char*> kSizes[] = {
      {"layers", "num_hidden_layers"},  {"hidden", "hidden_size"},
      {"heads", "num_attention_heads"}, {"kv_heads", "num_key_value_heads"},
      {"head_dim", "head_dim"},         {"intermediate", "intermediate_size"},
      {"vocabulary", "vocab_size"},     {"max_positions", "max_position_embeddings"}};
  for (const auto& [name, key] : kSizes)
    if (config.contains(key) && config[key].is_number_integer())
      header.sizes.emplace_back(name, config[key]);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) read_safetensors(file, header);
  return header;
}

// Types of values in the metadata of a GGUF file.
enum GgufType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

class GgufReader {
 public:
  explicit GgufReader(const std::string& path) : in_(path, std::ios::binary), path_(path) {
    if (!in_) fail("cannot read ", shown(path));
  }

  ModelHeader read() {
    header_.format = "GGUF";
    if (number<uint32_t>() != 0x46554747) fail(shown(path_), " is not a GGUF file");
    const auto version = number<uint32_t>();
    if (version < 2 || version > 3)
      fail(shown(path_), " has GGUF version ", version, "; 2 and 3 are read");
    const uint64_t tensors = count("tensors");
    const uint64_t values = count("metadata values");
    for (uint64_t i = 0; i < values; ++i) {
      const std::string key = text();
      value(key, number<uint32_t>(), 0);
    }
    for (uint64_t i = 0; i < tensors; ++i) tensor();
    take_sizes();
    return std::move(header_);
  }

 private:
  template <typename T>
  T number() {
    return read_number<T>(in_);
  }

  uint64_t count(const char* what) {
    const auto n = number<uint64_t>();
    if (n > kMaxCount) fail(shown(path_), " has ", n, " ", what, "; the limit is ", kMaxCount);
    return n;
  }

  std::string text() {
    const uint64_t size = number<uint64_t>();
    if (size > kMaxHeader)
      fail(shown(path_), " has a text of ", size, " bytes; the limit is ", kMaxHeader);
    std::string s(size, '\0');
    if (!in_.read(s.data(), static_cast<std::streamsize>(size)))
      fail(shown(path_), " ends inside its header");
    return s;
  }

  void value(const std::string& key, uint32_t type, int depth) {
    switch (type) {
      case kU8:
      case kI8:
      case kBool:
        number<uint8_t>();
        return;
      case kU16:
      case kI16:
        number<uint16_t>();
        return;
      case kU32:
      case kI32:
        integers_[key] = number<uint32_t>();
        return;
      case kF32:
        number<uint32_t>();
        return;
      case kU64:
      case kI64:
        integers_[key] = static_cast<int64_t>(number<uint64_t>());
        return;
      case kF64:
        number<uint64_t>();
        return;
      case kString: {
        std::string s = text();
        if (key == "general.architecture") header_.architecture = std::move(s);
        return;
      }
      case kArray: {
        if (depth > 2) fail(shown(path_), " has metadata nested deeper than 2 levels");
        const auto element = number<uint32_t>();
        const uint64_t n = count("array elements");
        for (uint64_t i = 0; i < n; ++i) value("", element, depth + 1);
        if (key == "tokenizer.ggml.tokens") vocabulary_ = static_cast<int64_t>(n);
        return;
      }
      default:
        fail(shown(path_), " has a metadata value of unknown type ", type);
    }
  }

  void tensor() {
    const std::string name = text();
    const auto dimensions = number<uint32_t>();
    if (dimensions > 4)
      fail(shown(path_), ": ", shown(name, 80), " has ", dimensions, " dimensions; the limit is 4");
    std::vector<int64_t> shape;
    for (uint32_t i = 0; i < dimensions; ++i)
      shape.push_back(static_cast<int64_t>(number<uint64_t>()));
    const auto type = number<uint32_t>();
    number<uint64_t>();  // offset
    header_.add_tensor(name, type_name(type), shape);
  }

  static std::string type_name(uint32_t type) {
    switch (type) {
      case 0:
        return "F32";
      case 1:
        return "F16";
      case 2:
        return "Q4_0";
      case 3:
        return "Q4_1";
      case 6:
        return "Q5_0";
      case 7:
        return "Q5_1";
      case 8:
        return "Q8_0";
      case 10:
        return "Q2_K";
      case 11:
        return "Q3_K";
      case 12:
        return "Q4_K";
      case 13:
        return "Q5_K";
      case 14:
        return "Q6_K";
      case 30:
        return "BF16";
      default:
        return cat("type ", type);
    }
  }

  void take_sizes() {
    constexpr std::pair<const char*, const char*> kSizes[] = {
        {"layers", "block_count"},
        {"hidden", "embedding_length"},
        {"heads", "attention.head_count"},
        {"kv_heads", "attention.head_count_kv"},
        {"head_dim", "attention.key_length"},
        {"intermediate", "feed_forward_length"},
        {"max_positions", "context_length"}};
    for (const auto& [name, key] : kSizes) {
      const auto it = integers_.find(header_.architecture + "." + key);
      if (it != integers_.end()) header_.sizes.emplace_back(name, it->second);
    }
    if (vocabulary_ > 0) header_.sizes.emplace_back("vocabulary", vocabulary_);
  }

  std::ifstream in_;
  std::string path_;
  ModelHeader header_;
  std::map<std::string, int64_t> integers_;
  int64_t vocabulary_ = 0;
};

}  // namespace

void ModelHeader::add_tensor(const std::string& name, const std::string& dtype,
                             const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(n, size, &n))
      fail("tensor ", shown(name, 80), " has an impossible shape");
  const std::string group = group_of(name);
  has_output |= group == "output";
  parameters += n;
  for (TensorGroup& g : groups) {
    if (g.name != group || g.dtype != dtype) continue;
    ++g.tensors;
    g.parameters += n;
    return;
  }
  groups.push_back({group, dtype, 1, n});
}

int64_t ModelHeader::flops_per_token() const {
  int64_t weights = 0;
  for (const TensorGroup& g : groups)
    if (g.name != "norm" && (g.name != "embedding" || !has_output)) weights += g.parameters;
  return 2 * weights;
}

ModelHeader read_model_header(const std::string& path) {
  try {
    return std::filesystem::is_directory(path) ? read_directory(path) : GgufReader(path).read();
  } catch (const nlohmann::json::exception&) {
    fail("the headers of ", shown(path), " are not the JSON that is expected");
  }
}

}  // namespace prefix_cli
