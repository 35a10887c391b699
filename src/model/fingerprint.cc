// What computed a page: everything that decides its bits.
#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "base/status.h"
#include "model/model.h"
#include "model/rope.h"

namespace prefix {
namespace {

// Changes whenever a kernel's results do: pages of the version before are then misses.
constexpr std::string_view kNumerics = "libprefix numerics 2";
constexpr size_t kChunk = size_t{16} << 20;

struct Chunk {
  std::span<const std::byte> bytes;
  bool on_device;
};

struct Pieces {
  std::vector<Chunk> chunks;

  void add(const void* data, size_t bytes, bool on_device) {
    const auto* at = static_cast<const std::byte*>(data);
    for (size_t done = 0; done < bytes; done += kChunk)
      chunks.push_back({{at + done, std::min(kChunk, bytes - done)}, on_device});
  }
  void add(const ops::PackedWeights& m) { add(m.data, m.bytes(), true); }
  void add(const ops::DeviceVector& v) { add(v.data(), v.size() * sizeof(float), true); }
  void add(const std::vector<float>& v) { add(v.data(), v.size() * sizeof(float), false); }
};

Sha256::Digest digest_of(const Chunk& chunk, ops::Device& device) {
  if (!chunk.on_device || device.host_memory()) return sha256(chunk.bytes);
  std::vector<std::byte> copy(chunk.bytes.size());
  device.download(copy.data(), chunk.bytes.data(), copy.size());
  return sha256(copy);
}

// The types of blocks that matrices lie in, which their bytes do not tell; empty without any.
std::string blocks_text(const Weights& weights) {
  std::string text;
  visit_all_matrices(weights, [&](const ops::PackedWeights& m) {
    if (m.format != ops::WeightFormat::kBlocks) return;
    text += 'b';
    for (int64_t panel = 0; panel < m.panels(); ++panel) {
      const auto type = [&](int64_t at) { return static_cast<int>(m.blocks.get()[at].type); };
      if (panel == 0 || type(panel) != type(panel - 1)) text += cat(' ', panel, ' ', type(panel));
    }
    text += '\n';
  });
  return text;
}

}  // namespace

// What is not said by weights alone; empty for a plain transformer.
std::string Model::recurrence() const {
  const RecurrentConfig& r = config_.recurrent;
  std::string text;
  for (const LayerSpec& layer : layers_)
    text += layer.state_layer >= 0 ? 'r' : layer.kv_layer >= 0 ? 'a' : 'f';
  if (text.find_first_not_of('a') == std::string::npos) text.clear();
  if (!text.empty())
    text += cat(' ', r.heads, ' ', r.head_dim, ' ', r.groups, ' ', r.state, ' ', r.conv_width, ' ',
                std::bit_cast<uint32_t>(r.dt_min), ' ', std::bit_cast<uint32_t>(r.dt_max), ' ',
                state_layout().bytes(), '\n');
  if (const ExpertConfig& e = config_.experts; e.count > 0)
    text += cat(e.count, ' ', e.per_token, ' ', e.intermediate, ' ', e.normalized, '\n');
  if (config_.embedding_multiplier != 1 || config_.residual_multiplier != 1 ||
      config_.attention_scale != 0)
    text += cat(std::bit_cast<uint64_t>(config_.embedding_multiplier), ' ',
                std::bit_cast<uint64_t>(config_.residual_multiplier), ' ',
                std::bit_cast<uint64_t>(config_.attention_scale), '\n');
  if (config_.activation != ops::ActivationFn::kSilu)
    text += cat("activation ", static_cast<int32_t>(config_.activation), '\n');
  if (!config_.unrotated.empty()) {
    for (const LayerSpec& layer : layers_) text += layer.rope_table < 0 ? '-' : '+';
    text += '\n';
  }
  if (!config_.windows.empty()) {
    text += 'w';
    for (const LayerSpec& layer : layers_) text += cat(' ', layer.window, ' ', layer.rope_table);
    if (config_.window_rope) text += cat(' ', config_.window_rope->attention_factor);
    text += '\n';
  }
  if (config_.bidirectional) text += "bidirectional\n";
  text += blocks_text(weights_);
  if (config_.score_cap != 0) text += cat('c', std::bit_cast<uint64_t>(config_.score_cap), '\n');
  return text;
}

// SHA-256 over a description and over the SHA-256 of each 16 MiB of weights, as they lie packed in
// memory: the files may have changed since. The final norm and the output matrix come after the
// last key and value, so they are left out.
Sha256::Digest Model::fingerprint(int threads, const Progress& progress) const {
  Pieces pieces;
  pieces.add(weights_.embedding);
  for (const LayerWeights& w : weights_.layers) {
    visit_matrices(w, [&](const ops::PackedWeights& matrix) { pieces.add(matrix); });
    for (const auto vector : kLayerVectors) pieces.add(w.*vector);
  }
  const std::vector<float> frequencies = rope_frequencies(config_, false);
  const std::vector<float> others = rope_frequencies(config_, rotations_.front().regime_switch > 0);
  pieces.add(frequencies);
  pieces.add(others);
  const std::vector<float> of_windows = rope_frequencies(config_.of_window_rope(), false);
  if (config_.window_rope) pieces.add(of_windows);

  std::vector<Sha256::Digest> digests(pieces.chunks.size());
  // A few for each thread, then steps may have a turn.
  const size_t at_once = 4 * static_cast<size_t>(threads);
  for (size_t begin = 0; begin < digests.size(); begin += at_once) {
    const size_t count = std::min(at_once, digests.size() - begin);
    device_.parallel(static_cast<int64_t>(count), [&](int64_t i) {
      const size_t chunk = begin + static_cast<size_t>(i);
      digests[chunk] = digest_of(pieces.chunks[chunk], device_);
    });
    if (progress && !progress(1))
      fail(Code::kCancelled, "the load was ended before the weights had their name");
  }

  const ops::KvLayout layout = kv_layout();
  const std::string head = cat(
      kNumerics, '\n', device_.name(), '\n', device_.numerics(), device_.page_layout(), '\n',
      config_.architecture, '\n', kv_bytes(layout.type), ' ', layout.layers, ' ', layout.kv_heads,
      ' ', layout.head_dim, ' ', kPageTokens, ' ', config_.heads, ' ', config_.hidden, ' ',
      config_.intermediate, ' ', config_.vocab_size, ' ', rotations_.front().dim, ' ',
      rotations_.front().regime_switch, '\n', std::bit_cast<uint32_t>(config_.norm_eps), ' ',
      std::bit_cast<uint64_t>(config_.rope.attention_factor), ' ', digests.size(), '\n',
      recurrence());
  Sha256 hash;
  hash.update(head.data(), head.size());
  for (const Sha256::Digest& digest : digests) hash.update(digest.data(), digest.size());
  return hash.finish();
}

}  // namespace prefix
