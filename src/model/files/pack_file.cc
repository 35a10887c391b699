#include "model/files/pack_file.h"

#include <cstring>

#include "base/json_text.h"
#include "base/status.h"
#include "model/files/gguf.h"
#include "model/load/packed_model.h"

namespace prefix {
namespace {

constexpr size_t kPage = 4096;

// Moves the tensors, which count from the first, behind what comes before.
std::string before(std::vector<Tensor>& tensors, std::string text) {
  for (Tensor& t : tensors) t.offset += text.size();
  return text;
}

class Bytes {
 public:
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& text) {
    number(uint64_t{text.size()});
    bytes_ += text;
  }
  std::string& all() { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

std::string packed_safetensors(std::vector<Tensor>& tensors, const std::string& text) {
  JsonText json;
  json.open('{').key("__metadata__").open('{').field(kPackedKey, text).close('}');
  uint64_t at = 0;
  for (Tensor& t : tensors) {
    json.key(t.name).open('{').field("dtype", tensor_type_name(t.type)).key("shape").open('[');
    for (const int64_t size : t.shape) json.value(size);
    json.close(']').key("data_offsets").open('[').value(static_cast<int64_t>(at));
    t.offset = at;
    at += t.bytes;
    json.value(static_cast<int64_t>(at)).close(']').close('}');
  }
  std::string header = std::move(json.close('}')).take();
  header.append((kPage - (8 + header.size()) % kPage) % kPage, ' ');
  Bytes out;
  out.text(header);
  return before(tensors, std::move(out.all()));
}

std::string packed_gguf(std::vector<Tensor>& tensors, const std::string& text,
                        const InputFile& model) {
  const GgufKeys keys = find_gguf_keys(model);
  Bytes out;
  out.all() = "GGUF";
  out.number(keys.version);
  out.number(uint64_t{tensors.size()});
  out.number(keys.count + 1);
  std::string& bytes = out.all();
  const size_t begin = bytes.size();
  bytes.resize(begin + keys.end - keys.begin);
  model.read(keys.begin, keys.end - keys.begin, bytes.data() + begin);
  out.text(kPackedKey);
  out.number(kGgufString);
  out.text(text);
  const auto padded = [&](uint64_t n) {
    return (n + keys.alignment - 1) / keys.alignment * keys.alignment;
  };
  uint64_t at = 0;
  for (Tensor& t : tensors) {
    out.text(t.name);
    out.number(static_cast<uint32_t>(t.shape.size()));
    for (size_t i = t.shape.size(); i-- > 0;) out.number(static_cast<uint64_t>(t.shape[i]));
    out.number(gguf_type(t.type));
    out.number(at);
    t.offset = at;
    at = padded(at + t.bytes);
  }
  bytes.resize(padded(bytes.size()));
  return before(tensors, std::move(bytes));
}

}  // namespace prefix
