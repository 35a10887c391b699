#include "model/files/safetensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

// Up to 12 JSON values for each tensor of a header at the limit.
constexpr JsonLimits kHeaderLimits = {kMaxSafetensorsHeader, 12 * kMaxTensors};
constexpr char kMetadata[] = "__metadata__";

TensorType type_of(std::string_view dtype) {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kI8, TensorType::kU8,
        TensorType::kI32, TensorType::kI64, TensorType::kF8_E4M3, TensorType::kF8_E8M0})
    if (dtype == tensor_type_name(type)) return type;
  return TensorType::kUnread;
}

// A file may call a type anything, and messages show it among the names of ours.
std::string shown_word(const std::string& dtype) {
  const bool plain = !dtype.empty() && dtype.size() <= 16 && std::ranges::all_of(dtype, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  });
  return plain ? dtype : quote(dtype);
}

struct Placed {
  Tensor tensor;
  int64_t begin = 0;  // of the data
  int64_t end = 0;
};

// Reads one entry of the header.
class EntryReader {
 public:
  // The data begin at byte `data` of the file.
  EntryReader(const InputFile& file, uint64_t data)
      : file_(file), data_(data), available_(static_cast<int64_t>(file.size() - data)) {}

  Placed read(const std::string& name, const Json& entry) const {
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets"))
      bad(name, "an entry has exactly dtype, shape and data_offsets; this is ", json_shown(entry));
    Placed p;
    p.tensor.name = name;
    const Json& dtype = entry.at("dtype");
    if (!dtype.is_string()) bad(name, "dtype is ", json_shown(dtype), ", not a string");
    p.tensor.type = type_of(dtype.get_ref<const std::string&>());
    if (p.tensor.type == TensorType::kUnread)
      p.tensor.unread = shown_word(dtype.get_ref<const std::string&>());
    const Json& shape = entry.at("shape");
    if (!shape.is_array() || shape.size() > kMaxSafetensorsDimensions)
      bad(name, "shape is ", json_shown(shape), "; it must be a list of at most ",
          kMaxSafetensorsDimensions, " sizes");
    for (const Json& d : shape) p.tensor.shape.push_back(size(name, d));
    const Json& offsets = entry.at("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2)
      bad(name, "data_offsets is ", json_shown(offsets), ", not [begin, end]");
    p.begin = size(name, offsets[0]);
    p.end = size(name, offsets[1]);
    place(p);
    return p;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void bad(const std::string& name, const Parts&... parts) const {
    fail(Code::kFormat, file_.name(), ": tensor ", quote(name), ": ", parts...);
  }

  int64_t size(const std::string& name, const Json& number) const {
    constexpr uint64_t kMaxSize = uint64_t{1} << 62;
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMaxSize)
      bad(name, json_shown(number), " is not a size in [0, ", kMaxSize, "]");
    return static_cast<int64_t>(number.get<uint64_t>());
  }

  void place(Placed& p) const {
    const std::string& name = p.tensor.name;
    const int64_t count = element_count(name, p.tensor.shape);
    if (p.begin > p.end || p.end > available_)
      bad(name, "data_offsets [", p.begin, ", ", p.end, "] are not inside the ", available_,
          " bytes of data");
    const int64_t bytes = p.end - p.begin;
    // A value of a type that is not read may take less than a byte, but not nothing.
    if (p.tensor.type == TensorType::kUnread) {
      if (count > 8 * bytes)
        bad(name, "its shape has ", count, " values, its data_offsets give ", bytes, " bytes");
    } else if (bytes != count * block_bytes(p.tensor.type)) {
      bad(name, "its shape takes ", count * block_bytes(p.tensor.type),
          " bytes, its data_offsets give ", bytes);
    }
    p.tensor.file = &file_;
    p.tensor.offset = data_ + static_cast<uint64_t>(p.begin);
    p.tensor.bytes = static_cast<size_t>(bytes);
  }

  const InputFile& file_;
  uint64_t data_;
  int64_t available_;
};

// The JSON text between the length and the data.
std::string header_text(const InputFile& file) {
  if (file.size() < 8)
    fail(Code::kFormat, file.name(), " has ", file.size(), " bytes; a header length takes 8");
  uint64_t length;
  file.read(0, 8, &length);
  if (length > kMaxSafetensorsHeader || length > file.size() - 8)
    fail(Code::kFormat, file.name(), ": the header length is ", length, "; the file has ",
         file.size() - 8, " bytes behind it, and at most ", kMaxSafetensorsHeader, " are allowed");
  std::string text(length, '\0');
  file.read(8, length, text.data());
  if (!text.starts_with('{'))
    fail(Code::kFormat, file.name(), ": the header does not start with {");
  return text;
}

void read_metadata(const std::string& file, const Json& metadata,
                   std::map<std::string, std::string>* out) {
  if (!metadata.is_object())
    fail(Code::kFormat, file, ": ", kMetadata, " is ", json_shown(metadata), ", not an object");
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string())
      fail(Code::kFormat, file, ": ", kMetadata, " entry ", quote(key), " is ", json_shown(value),
           ", not a string");
    if (out) out->emplace(key, value.get<std::string>());
  }
}

// No hole, no overlap, nothing behind the last tensor. Sorts by place.
void check_places(const std::string& file, std::vector<Placed>& placed, size_t data_bytes) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t at = 0;
  for (const Placed& p : placed) {
    if (p.begin < at)
      fail(Code::kFormat, file, ": tensor ", quote(p.tensor.name), " begins at byte ", p.begin,
           ", inside another tensor that ends at ", at);
    if (p.begin > at)
      fail(Code::kFormat, file, ": tensor ", quote(p.tensor.name), " begins at byte ", p.begin,
           "; the bytes from ", at, " on belong to no tensor");
    at = p.end;
  }
  if (static_cast<size_t>(at) != data_bytes)
    fail(Code::kFormat, file, ": the last ", data_bytes - static_cast<size_t>(at), " of ",
         data_bytes, " bytes of data belong to no tensor");
}

// File name -> tensors of the model that it must hold.
using WeightMap = std::map<std::string, std::set<std::string>>;

WeightMap read_index(const InputFile& file) {
  const std::string& name = file.name();
  const JsonDocument document(
      parse_json(read_text(file, kHeaderLimits.bytes), name, kHeaderLimits));
  const Json& index = document.tree();
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    fail(Code::kFormat, name, ": weight_map is missing or not an object");
  WeightMap files;
  for (const auto& [tensor, shard] : index.at("weight_map").items()) {
    if (!shard.is_string() || !plain_file_name(shard.get_ref<const std::string&>()))
      fail(Code::kFormat, name, ": tensor ", quote(tensor), " is in ", json_shown(shard),
           ", which is not a plain file name beside the index");
    files[shard.get<std::string>()].insert(tensor);
  }
  if (files.size() > kMaxShards)
    fail(Code::kFormat, name, " names ", files.size(), " files; at most ", kMaxShards,
         " are allowed");
  return files;
}

// Left by tools that write the index anew: as in Transformers, the index says which tensors the
// model has and where each is.
void leave_unlisted(const InputFile& file, const std::set<std::string>& listed,
                    TensorSource& shard) {
  std::vector<Tensor> kept = shard.tensors();
  const auto is_other = [&](const Tensor& t) { return !listed.contains(t.name); };
  const auto first = std::ranges::find_if(kept, is_other);
  if (first == kept.end()) return;
  const std::string name = first->name;
  const size_t left = std::erase_if(kept, is_other);
  log_message(LogLevel::kWarning,
              cat(file.name(), " has ", left, " tensors that the index does ",
                  "not list for it, such as ", quote(name), ": they are not used"));
  shard.replace(std::move(kept));
}

}  // namespace

void read_safetensors(std::shared_ptr<const InputFile> file, TensorSource& out,
                      std::map<std::string, std::string>* metadata) {
  const std::string& name_of_file = file->name();
  const std::string text = header_text(*file);
  const JsonDocument document(parse_json(text, name_of_file + ": the header", kHeaderLimits));
  const Json& header = document.tree();
  const size_t count = header.size() - header.count(kMetadata);
  if (count > kMaxTensors)
    fail(Code::kFormat, name_of_file, " lists ", count, " tensors; at most ", kMaxTensors,
         " are allowed");
  const uint64_t data = 8 + text.size();
  const EntryReader reader(*file, data);
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata)
      read_metadata(name_of_file, entry, metadata);
    else
      placed.push_back(reader.read(name, entry));
  }
  check_places(name_of_file, placed, file->size() - data);
  std::vector<Tensor> tensors;
  tensors.reserve(placed.size());
  for (Placed& p : placed) tensors.push_back(std::move(p.tensor));
  out.add(std::move(file), std::move(tensors));
}

void read_sharded_safetensors(const InputFolder& folder, const std::string& index,
                              TensorSource& out) {
  const std::shared_ptr<const InputFile> file = folder.open(index);
  for (const auto& [name, tensors] : read_index(*file)) {
    TensorSource shard;
    const std::shared_ptr<const InputFile> part = folder.open_listed(name, file->name());
    read_safetensors(part, shard);
    leave_unlisted(*part, tensors, shard);
    for (const std::string& t : tensors)
      if (!shard.find(t))
        fail(Code::kFormat, file->name(), ": tensor ", quote(t), " is not in ", quote(name));
    out.add_all(std::move(shard));
  }
}

}  // namespace prefix
