#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/json.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr uint64_t kMaxHeader = 100u << 20;
constexpr size_t kMaxTensors = 1000000;
constexpr size_t kMaxDimensions = 8;

std::optional<TensorType> type_of(const std::string& dtype) {
  if (dtype == "F32") return TensorType::kF32;
  if (dtype == "F16") return TensorType::kF16;
  if (dtype == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

struct Placed {
  Tensor tensor;
  int64_t begin;
  int64_t end;
};

Placed read_entry(const std::string& path, const std::string& name, const Json& entry,
                  std::span<const std::byte> data) {
  const auto bad = [&](const auto&... parts) {
    fail(Code::kFormat, path, ": tensor \"", name.substr(0, 120), "\": ", parts...);
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    bad("an entry has exactly dtype, shape and data_offsets");
  const std::string dtype = json_string(entry, "dtype", "");
  const std::optional<TensorType> type = type_of(dtype);
  if (!type)
    fail(Code::kUnsupportedModel, path, ": tensor \"", name, "\" has dtype ", dtype,
         " (supported: F32, F16, BF16)");
  const Json& shape = entry.at("shape");
  const Json& offsets = entry.at("data_offsets");
  if (!shape.is_array() || shape.size() > kMaxDimensions)
    bad("the shape must be a list of at most ", kMaxDimensions, " dimensions");
  if (!offsets.is_array() || offsets.size() != 2) bad("data_offsets must be [begin, end]");
  const auto whole = [&](const Json& number) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{1} << 62)
      bad(number.dump().substr(0, 60), " is not a size");
    return static_cast<int64_t>(number.get<uint64_t>());
  };
  Placed p;
  p.tensor.name = name;
  p.tensor.type = *type;
  for (const Json& d : shape) p.tensor.shape.push_back(whole(d));
  p.begin = whole(offsets[0]);
  p.end = whole(offsets[1]);
  const int64_t bytes = element_count(name, p.tensor.shape) * block_bytes(*type);
  const auto size = static_cast<int64_t>(data.size());
  if (p.begin > p.end || p.end > size)
    bad("data_offsets [", p.begin, ", ", p.end, "] leave the ", size, " bytes of data");
  if (p.end - p.begin != bytes)
    bad("its shape takes ", bytes, " bytes, its data_offsets give ", p.end - p.begin);
  p.tensor.data = data.data() + p.begin;
  p.tensor.bytes = static_cast<size_t>(bytes);
  return p;
}

bool plain_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos &&
         name != "." && name != "..";
}

}  // namespace

void read_safetensors(const std::string& path, TensorSource& out) {
  auto file = std::make_shared<MappedFile>(path);
  const auto bytes = file->bytes();
  if (bytes.size() < 8)
    fail(Code::kFormat, path, " has ", bytes.size(), " bytes; a header length takes 8");
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (length > kMaxHeader || length > bytes.size() - 8)
    fail(Code::kFormat, path, ": the header length is ", length, "; the file has ",
         bytes.size() - 8, " bytes behind it and at most ", kMaxHeader, " are allowed");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (!text.starts_with('{')) fail(Code::kFormat, path, ": the header does not start with {");
  const Json header = parse_json(text, path + ": the header");
  if (header.size() > kMaxTensors)
    fail(Code::kFormat, path, " lists ", header.size(), " tensors; at most ", kMaxTensors);

  const auto data = bytes.subspan(8 + length);
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      const bool strings = entry.is_object() && std::all_of(entry.begin(), entry.end(),
                                                            [](const Json& v) { return v.is_string(); });
      if (!strings) fail(Code::kFormat, path, ": __metadata__ must map strings to strings");
      continue;
    }
    placed.push_back(read_entry(path, name, entry, data));
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (const Placed& p : placed) {
    if (p.begin != at)
      fail(Code::kFormat, path, ": tensor \"", p.tensor.name, "\" begins at byte ", p.begin,
           p.begin < at ? ", inside another tensor that ends at " : ", leaving a hole after ", at);
    at = p.end;
  }
  if (at != static_cast<int64_t>(data.size()))
    fail(Code::kFormat, path, ": ", data.size() - static_cast<size_t>(at),
         " bytes after the last tensor belong to none");
  std::vector<Tensor> tensors;
  for (Placed& p : placed) tensors.push_back(std::move(p.tensor));
  out.add(std::move(file), std::move(tensors));
}

void read_sharded_safetensors(const std::string& index_path, TensorSource& out) {
  const Json index = parse_json(read_text_file(index_path, kMaxHeader), index_path);
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    fail(Code::kFormat, index_path, ": weight_map is missing");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : index.at("weight_map").items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!plain_file_name(name))
      fail(Code::kFormat, index_path, ": \"", name.substr(0, 120),
           "\" is not a plain file name beside the index");
    files[name].insert(tensor);
  }
  const std::string folder = index_path.substr(0, index_path.rfind('/') + 1);
  for (const auto& [name, tensors] : files) {
    TensorSource shard;
    read_safetensors(folder + name, shard);
    for (const Tensor& t : shard.tensors())
      if (!tensors.count(t.name))
        fail(Code::kFormat, folder, name, ": tensor \"", t.name, "\" is not listed for this file in ",
             index_path);
    for (const std::string& t : tensors)
      if (!shard.find(t))
        fail(Code::kFormat, index_path, ": tensor \"", t, "\" is not in ", name);
    out.add_all(std::move(shard));
  }
}

}  // namespace prefix
