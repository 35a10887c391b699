#include "model/adapter.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "model/files/safetensors.h"
#include "model/load/tensor_names.h"
#include "model/load/tensor_rows.h"

namespace prefix {
namespace {

constexpr char kConfig[] = "adapter_config.json";
constexpr char kTensors[] = "adapter_model.safetensors";

void add_file(Sha256& hash, const InputFile& file) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  const uint64_t size = file.size();
  hash.update(&size, sizeof(size));
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, size)));
  for (uint64_t at = 0; at < size; at += piece.size()) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(piece.size(), size - at));
    file.read(at, count, piece.data());
    hash.update(piece.data(), count);
  }
}

}  // namespace

AdapterFiles open_adapter(const InputFolder& folder) {
  if (!folder.has(kConfig))
    fail(Code::kNotFound, folder.name(), " has no ", kConfig, "; an adapter is a PEFT directory");
  if (!folder.has(kTensors))
    fail(Code::kNotFound, folder.name(), " has no ", kTensors,
         "; adapters are read from safetensors files only");
  const std::shared_ptr<const InputFile> config = folder.open(kConfig);
  const std::shared_ptr<const InputFile> tensors = folder.open(kTensors);
  AdapterFiles files;
  files.config = read_adapter_config(*config);
  read_safetensors(tensors, files.tensors);
  Sha256 hash;
  constexpr std::string_view kDomain = "libprefix adapter 1";
  hash.update(kDomain.data(), kDomain.size());
  add_file(hash, *config);
  add_file(hash, *tensors);
  files.digest = hash.finish();
  config->check_unchanged();
  return files;
}

namespace {

// Rows [first, first + count) of a B are these columns of the matrix that the model keeps.
struct Piece {
  int64_t column = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// A module of the model that can have an adapter.
struct Module {
  std::string name;  // without what stands before "layers."
  size_t layer = 0;
  ops::LowRank AdapterLayer::* matrix = nullptr;
  int64_t n = 0, k = 0;  // of the module's own matrix
  std::vector<Piece> pieces;
};

// What was found for a module.
struct Pair {
  const Tensor* a = nullptr;
  const Tensor* b = nullptr;
  std::string module;  // as the file calls it
};

// scale B of modules that share a matrix, on a diagonal of blocks; rows from `first` on.
class BlockDiagonal final : public ops::WeightSource {
 public:
  struct Block {
    const Tensor* b = nullptr;
    const std::vector<Piece>* pieces = nullptr;
    int64_t column = 0;  // of x A^T
    float scale = 1;
  };
  BlockDiagonal(const std::vector<Block>& blocks, int64_t rank, int64_t first)
      : blocks_(blocks), rank_(rank), first_(first) {}

  ops::TensorType type(int64_t) const override { return ops::TensorType::kF32; }
  void read(int64_t row, std::byte* out) const override {
    row += first_;
    auto* const values = reinterpret_cast<float*>(out);
    std::fill_n(values, rank_, 0.0f);
    for (const Block& block : blocks_) {
      for (const Piece& piece : *block.pieces) {
        if (row < piece.column || row >= piece.column + piece.count) continue;
        float* const own = values + block.column;
        read_row(*block.b, piece.first + row - piece.column, own);
        const int64_t rank = block.b->row_values();
        for (int64_t i = 0; i < rank; ++i) own[i] *= block.scale;
      }
    }
  }

 private:
  const std::vector<Block>& blocks_;
  int64_t rank_, first_;
};

// Alone or beside experts.
bool is_gated(const LayerSpec& spec) {
  return spec.feed_forward == FeedForward::kGated || spec.shared;
}

// "layers.3.mlp.up_proj" of whatever stands before it in a file.
std::string_view stem_of(std::string_view module) {
  for (const std::string_view start :
       {"model.language_model.", "language_model.model.", "language_model.", "backbone.", "model."})
    if (module.starts_with(start)) return module.substr(start.size());
  return module;
}

}  // namespace

class AdapterLoader {
 public:
  AdapterLoader(Adapter& adapter, const AdapterFiles& files, const ModelConfig& config,
                const Architecture& architecture, const std::vector<LayerSpec>& layers)
      : adapter_(adapter),
        files_(files),
        config_(config),
        names_(architecture.hugging_face),
        specs_(layers) {
    for (size_t i = 0; i < specs_.size(); ++i) add_modules(i);
    for (size_t i = 0; i < modules_.size(); ++i) numbers_.emplace(modules_[i].name, i);
    pairs_.resize(modules_.size());
  }

  void load(const Adapter::Progress& progress) {
    for (const Tensor& tensor : files_.tensors.tensors()) place(tensor);
    check_pairs();
    adapter_.layers_.resize(specs_.size());
    // Modules of one matrix stand side by side.
    for (size_t begin = 0, end; begin < modules_.size(); begin = end) {
      end = begin;
      while (end < modules_.size() && modules_[end].layer == modules_[begin].layer &&
             modules_[end].matrix == modules_[begin].matrix)
        ++end;
      if (progress && !progress())
        fail(Code::kCancelled, "the load was ended before the adapter was there");
      pack(begin, end);
    }
    files_.tensors.check_files();
  }

 private:
  void add(size_t layer, std::string_view pattern, ops::LowRank AdapterLayer::* matrix, int64_t n,
           int64_t k, std::vector<Piece> pieces) {
    if (pattern.empty()) return;
    const std::string name = for_layer(pattern, static_cast<int32_t>(layer));
    modules_.push_back({std::string(stem_of(name)), layer, matrix, n, k, std::move(pieces)});
  }

  void add_modules(size_t i) {
    const LayerSpec& spec = specs_[i];
    if (spec.mixer == Mixer::kAttention) add_attention(i);
    const int64_t h = config_.hidden, inner = config_.intermediate;
    if (is_gated(spec) && !names_.gate_up.empty()) {
      add(i, names_.gate_up, &AdapterLayer::gate_up, 2 * inner, h, {{0, 0, 2 * inner}});
    } else if (is_gated(spec)) {
      add(i, names_.gate, &AdapterLayer::gate_up, inner, h, {{0, 0, inner}});
      add(i, names_.up, &AdapterLayer::gate_up, inner, h, {{inner, 0, inner}});
    } else if (spec.feed_forward == FeedForward::kSquaredRelu) {
      add(i, names_.up, &AdapterLayer::gate_up, inner, h, {{0, 0, inner}});
    }
    if (is_gated(spec) || spec.feed_forward == FeedForward::kSquaredRelu)
      add(i, names_.down, &AdapterLayer::down, h, inner, {{0, 0, h}});
  }

  void add_attention(size_t i) {
    const int64_t h = config_.hidden, d = config_.head_dim;
    const int64_t q = config_.heads * d, kv = config_.kv_heads * d;
    constexpr auto kIn = &AdapterLayer::mixer_in;
    if (!names_.qkv.empty()) {
      add(i, names_.qkv, kIn, q + 2 * kv, h, {{0, 0, q + 2 * kv}});
    } else {
      std::vector<Piece> query = {{0, 0, q}};
      if (config_.attention_gate) {  // [query | gate] of each head in turn
        query.clear();
        for (int64_t head = 0; head < config_.heads; ++head) {
          query.push_back({head * d, 2 * head * d, d});
          query.push_back({q + 2 * kv + head * d, (2 * head + 1) * d, d});
        }
      }
      add(i, names_.q, kIn, config_.attention_gate ? 2 * q : q, h, std::move(query));
      add(i, names_.k, kIn, kv, h, {{q, 0, kv}});
      add(i, names_.v, kIn, kv, h, {{q + kv, 0, kv}});
    }
    add(i, names_.attention_output, &AdapterLayer::mixer_out, h, q, {{0, 0, h}});
  }

  // A tensor finds its module, or is refused.
  void place(const Tensor& tensor) {
    constexpr std::string_view kStart = "base_model.model.";
    constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";
    const std::string_view name = tensor.name;
    const bool is_a = name.ends_with(kA);
    if (!name.starts_with(kStart) || (!is_a && !name.ends_with(kB)))
      fail(Code::kUnsupportedModel, "adapter tensor ", quote(name, 200),
           " is not run; those of an adapter are called base_model.model.*.lora_A.weight and ",
           "lora_B.weight");
    const std::string_view module =
        name.substr(kStart.size(), name.size() - kStart.size() - kA.size());
    const auto found = numbers_.find(std::string(stem_of(module)));
    if (found == numbers_.end())
      fail(Code::kUnsupportedModel, "adapter tensor ", quote(name, 200), " has no place in this ",
           quote(config_.architecture), " of ", config_.layers,
           " layers: adapters are for the projections of attention and of dense feed-forward ",
           "blocks");
    if (!files_.config.is_target(module))
      fail(Code::kFormat, "adapter tensor ", quote(name, 200),
           " is of a module that \"target_modules\" does not name");
    Pair& pair = pairs_[found->second];
    if (!pair.module.empty() && pair.module != module)
      fail(Code::kFormat, "adapter tensors of both ", quote(pair.module, 200), " and ",
           quote(module, 200), " are there, which are one module");
    pair.module = module;
    const Module& of = modules_[found->second];
    const int64_t rank = files_.config.rank_of(module);
    const std::vector<int64_t> shape =
        is_a ? std::vector<int64_t>{rank, of.k} : std::vector<int64_t>{of.n, rank};
    if (tensor.shape != shape)
      fail(Code::kFormat, "adapter tensor ", quote(name, 200), " has shape ",
           shape_text(tensor.shape), "; the model and the rank, ", rank, ", ask for ",
           shape_text(shape));
    if (tensor.type != TensorType::kF32 && tensor.type != TensorType::kBF16 &&
        tensor.type != TensorType::kF16)
      fail(Code::kUnsupportedModel, "adapter tensor ", quote(name, 200), " has type ",
           tensor.kind(), "; it must be F32, F16 or BF16");
    (is_a ? pair.a : pair.b) = &tensor;
  }

  void check_pairs() const {
    bool any = false;
    for (const Pair& pair : pairs_) {
      if (pair.module.empty()) continue;
      any = true;
      if (!pair.a || !pair.b)
        fail(Code::kFormat, "adapter tensor \"base_model.model.", pair.module,
             pair.a ? ".lora_B" : ".lora_A", ".weight\" is missing");
    }
    if (!any) fail(Code::kFormat, "the adapter has no tensors");
  }

  // The matrix of modules [begin, end), as far as they are there.
  void pack(size_t begin, size_t end) {
    std::vector<TensorRows::Part> a;
    std::vector<BlockDiagonal::Block> b;
    int64_t rank = 0;
    for (size_t i = begin; i < end; ++i) {
      const Pair& pair = pairs_[i];
      if (!pair.a) continue;
      const int64_t own = pair.a->shape[0];
      a.push_back({pair.a, 0, own});
      b.push_back({pair.b, &modules_[i].pieces, rank,
                   static_cast<float>(files_.config.scale_of(pair.module))});
      rank += own;
    }
    if (rank == 0) return;
    const Module& module = modules_[begin];
    ops::Device& device = adapter_.device_;
    const ops::WeightFormat format = device.types().weights;
    ops::LowRank& out = adapter_.layers_[module.layer].*module.matrix;
    out.a = device.pack(format, rank, module.k, TensorRows(std::move(a)));
    adapter_.bytes_ += static_cast<int64_t>(out.a.bytes());
    const LayerSpec& spec = specs_[module.layer];
    const int64_t inner = config_.intermediate;
    const bool gated = module.matrix == &AdapterLayer::gate_up && is_gated(spec);
    out.b = gated ? device.pack_gated(format, inner, rank, BlockDiagonal(b, rank, 0),
                                      BlockDiagonal(b, rank, inner))
                  : device.pack(format, columns_of(begin, end), rank, BlockDiagonal(b, rank, 0));
    adapter_.bytes_ += static_cast<int64_t>(out.b.bytes());
    adapter_.widest_ = std::max(adapter_.widest_, rank);
    adapter_.matrices_ += static_cast<int64_t>(b.size());
  }

  // Of the matrix that these modules share, whether they are there or not.
  int64_t columns_of(size_t begin, size_t end) const {
    int64_t columns = 0;
    for (size_t i = begin; i < end; ++i)
      for (const Piece& piece : modules_[i].pieces) columns += piece.count;
    return columns;
  }

  Adapter& adapter_;
  const AdapterFiles& files_;
  const ModelConfig& config_;
  const TensorNames& names_;
  const std::vector<LayerSpec>& specs_;
  std::vector<Module> modules_;
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<Pair> pairs_;  // of each module
};

Adapter::Adapter(const AdapterFiles& files, const ModelConfig& config,
                 const Architecture& architecture, const std::vector<LayerSpec>& layers,
                 ops::Device& device, const Progress& progress)
    : device_(device) {
  try {
    AdapterLoader(*this, files, config, architecture, layers).load(progress);
  } catch (...) {
    release();
    throw;
  }
}

void Adapter::release() {
  const auto free = [&](const ops::PackedWeights& m) {
    if (m.data) device_.release(const_cast<std::byte*>(m.data), m.bytes());
  };
  for (const AdapterLayer& layer : layers_) {
    for (const ops::LowRank AdapterLayer::* matrix :
         {&AdapterLayer::mixer_in, &AdapterLayer::mixer_out, &AdapterLayer::gate_up,
          &AdapterLayer::down}) {
      free((layer.*matrix).a);
      free((layer.*matrix).b);
    }
  }
  layers_.clear();
}

}  // namespace prefix
