// A prefix tree with made-up keys and values, steps over it, and attention in float64.
//
// The content of a token depends only on (seed, node, position), so the same row can be computed
// in many ways (`StepOptions`) and must come out with the same bits each time:
//
//   Tree ── make_step(rows, options) ──> Step: pool, page ids, rows, plan ──> run_attention
//                                                                      └───> attention_f64
//
// The packing below is written from the comments of op.h, on purpose not from the library's code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/device_array.h"
#include "ops/rotation.h"
#include "ops/step.h"

namespace prefix::ops::testing {

using Rng = std::mt19937_64;

inline int64_t pick(Rng& rng, int64_t low, int64_t high) {  // low..high, both included
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

enum class Kind : uint64_t { kQuery = 1, kKey = 2, kValue = 3 };

// Uniform in [-1, 1), a function of its arguments only.
inline float noise(uint64_t seed, Kind kind, uint64_t node, uint64_t position, uint64_t element) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(kind) * 0xd1342543de82ef95u +
               node * 0x2545f4914f6cdd1du + position * 0x9fb21c651e98df25u + element;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return static_cast<float>(static_cast<int32_t>(x >> 40)) / 8388608.0f - 1.0f;
}

struct Node {
  int32_t parent;
  int32_t begin;  // positions of its tokens: [begin, end)
  int32_t end;
};

struct RowRef {
  int32_t node;
  int32_t position;
  auto operator<=>(const RowRef&) const = default;
};

struct Tree {
  DType type = DType::kBf16;
  int32_t heads = 2;
  int32_t kv_heads = 1;
  int32_t head_dim = 64;
  uint64_t seed = 1;
  float query_scale = 4.0f;  // larger: sharper attention
  float value_scale = 1.0f;
  int32_t window = 0;          // keys that a row sees; 0: all
  bool bidirectional = false;  // a row sees as many behind it; each node is a text of its own
  float soft_cap = 0;          // of scores; 0: none
  std::vector<float> sinks;    // [heads], or empty
  bool gpu_pages = false;      // pages as a GPU has them (src/ops/gpu/launch.h)
  bool int8 = false;           // keys and values in whole numbers
  std::vector<Node> nodes;     // depth first

  // The node of the path to `node` that holds `position`.
  int32_t owner(int32_t node, int32_t position) const {
    while (nodes[node].begin > position) node = nodes[node].parent;
    return node;
  }
  // Elements `first` and on of a token's query, key or value.
  void elements(Kind kind, int32_t node, int32_t position, int64_t first,
                std::span<float> out) const {
    const auto token = static_cast<uint64_t>(owner(node, position));
    const float factor = kind == Kind::kQuery   ? query_scale
                         : kind == Kind::kValue ? value_scale
                                                : 1;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = factor * noise(seed, kind, token, static_cast<uint64_t>(position),
                              static_cast<uint64_t>(first) + i);
    if (type == DType::kBf16)
      for (float& value : out) value = from_bf16(to_bf16(value));
  }
  // The first position that a row at this one sees.
  int32_t first_key(int32_t position) const {
    return window == 0 ? 0 : std::max(0, position - window + 1);
  }
  // The last one.
  int32_t last_key(const RowRef& row) const {
    if (!bidirectional) return row.position;
    const int32_t end = nodes[row.node].end - 1;
    return window == 0 ? end : std::min(end, row.position + window - 1);
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  KvLayout layout() const { return {int8 ? KvType::kInt8 : kv_of(type), 1, kv_heads, head_dim}; }
};

// Random tree: every node hangs under the one before it or one of that node's ancestors, which
// keeps the list depth first.
inline void grow(Tree& tree, Rng& rng, int nodes, int max_tokens) {
  tree.nodes.clear();
  for (int i = 0; i < nodes; ++i) {
    int32_t parent = i - 1;
    while (parent > 0 && pick(rng, 0, 1) == 0) parent = tree.nodes[parent].parent;
    const int32_t begin = parent < 0 ? 0 : tree.nodes[parent].end;
    tree.nodes.push_back({parent, begin, begin + static_cast<int32_t>(pick(rng, 1, max_tokens))});
  }
}

// Texts that have nothing in common.
inline void grow_texts(Tree& tree, Rng& rng, int texts, int max_tokens) {
  tree.bidirectional = true;
  tree.nodes.clear();
  for (int i = 0; i < texts; ++i)
    tree.nodes.push_back({-1, 0, static_cast<int32_t>(pick(rng, 1, max_tokens))});
}

// A trunk of `trunk` tokens with `leaves` children of `leaf_tokens` each.
inline void grow_star(Tree& tree, int trunk, int leaves, int leaf_tokens) {
  tree.nodes.assign(1, {-1, 0, trunk});
  for (int i = 0; i < leaves; ++i) tree.nodes.push_back({0, trunk, trunk + leaf_tokens});
}

// Every position of every node, depth first.
inline std::vector<RowRef> all_rows(const Tree& tree) {
  std::vector<RowRef> rows;
  for (int32_t n = 0; n < static_cast<int32_t>(tree.nodes.size()); ++n)
    for (int32_t p = tree.nodes[n].begin; p < tree.nodes[n].end; ++p) rows.push_back({n, p});
  return rows;
}

// A random sorted choice of up to `count` of them.
inline std::vector<RowRef> some_rows(const Tree& tree, int64_t count, Rng& rng) {
  std::vector<RowRef> rows = all_rows(tree);
  std::shuffle(rows.begin(), rows.end(), rng);
  if (static_cast<int64_t>(rows.size()) > count) rows.resize(static_cast<size_t>(count));
  std::sort(rows.begin(), rows.end());
  return rows;
}

enum class Sharing { kTree, kPerNode, kPerRow };  // who has pages of its own

struct StepOptions {
  Sharing sharing = Sharing::kTree;
  int32_t tile_rows = 16;  // tiles hold 1..tile_rows rows, chosen at random if `ragged`
  bool ragged = true;
  bool split_runs = false;    // cut runs at random although they could be one
  bool split_chunks = false;  // one item per chunk
  bool cut_tail = false;      // pages end at the last key a row of this step needs
  bool cut_head = false;      // and begin with the first one
  bool nan_keys = false;      // garbage around these: keys are NaN instead of large numbers
};

struct Step {
  std::vector<RowRef> rows;
  std::vector<int32_t> positions;
  std::vector<std::byte> pool;
  AttentionPlan plan;
};

// Element `i` of the key / value in `slot`, as an index into its block.
inline int64_t key_index(DType type, int64_t slot, int64_t i) {
  return type == DType::kBf16 ? (i / 2 * kPageTokens + slot) * 2 + i % 2 : i * kPageTokens + slot;
}
inline int64_t value_index(DType type, int64_t slot, int64_t i) {
  const int64_t panel = i / 32 * 32 * kPageTokens;
  return type == DType::kBf16 ? panel + (slot / 2 * 32 + i % 32) * 2 + slot % 2
                              : panel + slot * 32 + i % 32;
}

// The same in the pages of a GPU (src/ops/gpu/launch.h): strips of up to 64 columns, in each the
// 16-byte pieces of a line of 128 bytes swizzled.
inline int64_t gpu_index(const KvLayout& kv, int64_t slot, int64_t i) {
  if (kv.type == KvType::kF32) return slot * kv.d_padded() + i;
  const int64_t strip = i / 64;
  const int64_t row = std::min<int64_t>(64, kv.d_padded() - strip * 64) * 2;  // bytes
  const int64_t byte = slot * row + i % 64 * 2;
  const int64_t line = byte / 128, piece = byte % 128 / 16;
  const int64_t mixed = piece ^ (line % (row / 16));
  return (strip * 4096 + line * 128 + mixed * 16 + byte % 16) / 2;
}

// A key or a value in whole numbers, put into its slot (kv_layout.h); `x` is used up.
inline void put_whole(std::byte* at, const KvLayout& kv, int64_t slot, bool key,
                      std::span<float> x) {
  const int64_t d = kv.head_dim, block = key ? rotation_block(d) : 1;
  for (int64_t stride = block / 2; stride >= 1; stride /= 2)
    for (int64_t i = 0; i < d; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  float peak = 0;
  for (const float v : x) peak = std::max(peak, std::abs(v));
  const float scale = peak / 127.0f / static_cast<float>(block);
  std::memcpy(at + kv.numbers_bytes() + static_cast<size_t>(slot) * 4, &scale, sizeof scale);
  for (int64_t i = 0; i < d; ++i) {
    const float whole = peak == 0 ? 0 : std::nearbyint(x[i] * (127.0f / peak));
    const int64_t index = key ? (i / 4 * kPageTokens + slot) * 4 + i % 4
                              : i / 32 * 1024 + (slot / 4 * 32 + i % 32) * 4 + slot % 4;
    at[index] = static_cast<std::byte>(static_cast<int>(whole) + (key ? 128 : 0));
  }
}

// Fills the page that holds positions [32 * block, ..) of the path to `node`,
// with keys [begin, end).
inline void fill_page(const Tree& tree, int32_t node, int32_t block, int32_t begin, int32_t end,
                      float garbage_key, float garbage_value, int32_t page, std::byte* pool) {
  const KvLayout kv = tree.layout();
  std::vector<float> x(static_cast<size_t>(tree.head_dim));
  for (int32_t head = 0; head < tree.kv_heads; ++head) {
    for (const Kind kind : {Kind::kKey, Kind::kValue}) {
      const bool key = kind == Kind::kKey;
      std::byte* const at =
          pool + (key ? kv.key_offset(page, 0, head) : kv.value_offset(page, 0, head));
      for (int32_t slot = 0; slot < kPageTokens; ++slot) {
        const int32_t position = block * kPageTokens + slot;
        if (position >= begin && position < end)
          tree.elements(kind, node, position, head * tree.head_dim, x);
        else
          std::fill(x.begin(), x.end(), key ? garbage_key : garbage_value);
        if (tree.int8)
          put_whole(at, kv, slot, key, x);
        else
          for (int32_t i = 0; i < tree.head_dim; ++i)
            put(at,
                tree.gpu_pages ? gpu_index(kv, slot, i)
                : key          ? key_index(tree.type, slot, i)
                               : value_index(tree.type, slot, i),
                tree.type, x[static_cast<size_t>(i)]);
      }
    }
  }
}

// Rows must be sorted (depth first). Page ids are a random permutation.
constexpr int32_t kNoPage = -1;

inline Step make_step(const Tree& tree, std::vector<RowRef> rows, const StepOptions& options,
                      Rng& rng) {
  Step step;
  step.rows = std::move(rows);
  const int32_t n = static_cast<int32_t>(step.rows.size());
  // Page of (row, block): rows with the same key share it.
  struct Page {
    int32_t node, block, begin, end, id;
  };
  std::map<std::tuple<int32_t, int32_t>, Page> pages;  // (owner key, block)
  std::vector<std::vector<int32_t>> page_of(n);
  std::vector<std::vector<std::tuple<int32_t, int32_t>>> keys(n);
  for (int32_t r = 0; r < n; ++r) {
    const RowRef row = step.rows[r];
    step.positions.push_back(row.position);
    const int32_t first = tree.first_key(row.position);
    for (int32_t block = 0; block <= tree.last_key(row) / kPageTokens; ++block) {
      if (block < first / kPageTokens) {  // behind the window: no page of this row's
        keys[r].push_back({-1, -1});
        continue;
      }
      // A child that begins inside a page owns that page: the last position decides.
      const int32_t last = std::min(tree.last_key(row), block * kPageTokens + kPageTokens - 1);
      int32_t node = row.node;
      int32_t key = r;
      if (options.sharing == Sharing::kPerNode) key = row.node;
      if (options.sharing == Sharing::kTree) {
        const int32_t block_last = block * kPageTokens + kPageTokens - 1;
        key = node = tree.owner(row.node, std::min(tree.nodes[row.node].end - 1, block_last));
      }
      const int32_t end = options.cut_tail ? last + 1 : tree.nodes[node].end;
      const int32_t begin = options.cut_head ? first : 0;
      auto [it, fresh] = pages.try_emplace({key, block}, Page{node, block, begin, end, 0});
      it->second.begin = std::min(it->second.begin, begin);
      it->second.end = std::max(it->second.end, end);
      keys[r].push_back({key, block});
    }
  }
  std::vector<int32_t> ids(pages.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::shuffle(ids.begin(), ids.end(), rng);
  step.pool.resize(pages.size() * tree.layout().page_bytes());
  size_t next = 0;
  for (auto& [key, page] : pages) {
    page.id = ids[next++];
    const float garbage = static_cast<float>(pick(rng, -1000, 1000));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    fill_page(tree, page.node, page.block, page.begin, page.end,
              options.nan_keys && !tree.int8 ? nan : garbage, garbage, page.id, step.pool.data());
  }
  for (int32_t r = 0; r < n; ++r)
    for (const auto& key : keys[r])
      page_of[r].push_back(std::get<1>(key) < 0 ? kNoPage : pages.at(key).id);
  const auto has_page = [&](int32_t row, int32_t block) {
    return block < static_cast<int32_t>(page_of[row].size()) && page_of[row][block] != kNoPage;
  };

  AttentionPlan& plan = step.plan;
  plan.window = tree.window;
  for (const RowRef& row : step.rows)
    if (tree.bidirectional) plan.ends.push_back(tree.nodes[row.node].end - 1);
  for (int32_t row = 0; row < n;) {
    AttentionTile tile{};
    const int64_t want = options.ragged ? pick(rng, 1, options.tile_rows) : options.tile_rows;
    tile.row_begin = row;
    tile.row_end = static_cast<int32_t>(std::min<int64_t>(n, row + want));
    tile.run_begin = static_cast<int32_t>(plan.runs.size());
    tile.last_position = 0;
    tile.first_key = tree.first_key(step.positions[row]);
    for (int32_t r = row; r < tile.row_end; ++r) {
      tile.last_position = std::max(tile.last_position, tree.last_key(step.rows[r]));
      tile.first_key = std::min(tile.first_key, tree.first_key(step.positions[r]));
    }
    std::vector<AttentionRun> runs;
    std::vector<std::vector<int32_t>> lists;
    for (int32_t block = 0; block <= tile.last_position / kPageTokens; ++block) {
      for (int32_t r = row; r < tile.row_end;) {
        if (!has_page(r, block)) {
          ++r;
          continue;
        }
        const int32_t page = page_of[r][block];
        int32_t last = r + 1;  // rows up to the last one with this page, others without one between
        for (int32_t s = r + 1; s < tile.row_end; ++s) {
          const bool has = has_page(s, block);
          if (has && page_of[s][block] != page) break;
          if (has) last = s + 1;
        }
        if (options.split_runs && pick(rng, 0, 3) == 0)
          last = static_cast<int32_t>(pick(rng, r + 1, last));
        bool joined = false;
        for (size_t i = 0; i < runs.size() && !joined; ++i) {
          AttentionRun& run = runs[i];
          if (run.row_begin != r || run.row_end != last || run.block_begin + run.blocks != block)
            continue;
          if (options.split_runs && pick(rng, 0, 3) == 0) continue;
          ++run.blocks;
          lists[i].push_back(page);
          joined = true;
        }
        if (!joined) {
          runs.push_back({0, block, 1, r, last});
          lists.push_back({page});
        }
        r = last;
      }
    }
    std::vector<size_t> order(runs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(runs[a].block_begin, runs[a].row_begin) <
             std::pair(runs[b].block_begin, runs[b].row_begin);
    });
    for (size_t i : order) {
      runs[i].page_begin = static_cast<int32_t>(plan.pages.size());
      plan.pages.insert(plan.pages.end(), lists[i].begin(), lists[i].end());
      plan.runs.push_back(runs[i]);
    }
    tile.run_end = static_cast<int32_t>(plan.runs.size());
    const int32_t index = static_cast<int32_t>(plan.tiles.size());
    plan.tiles.push_back(tile);
    if (options.split_chunks) {
      const int32_t end = tile.last_position / kKeyChunk + 1;
      for (int32_t c = tile.first_key / kKeyChunk; c < end; ++c)
        plan.items.push_back({index, c, plan.partial_slots++});
    } else {
      plan.items.push_back({index, -1, -1});
    }
    row = tile.row_end;
  }
  return step;
}

// out[rows, heads * head_dim] in float64, from the tree itself (no pages, no plan).
inline std::vector<double> attention_f64(const Tree& tree, const std::vector<RowRef>& rows) {
  const int64_t d = tree.head_dim;
  const int64_t width = tree.heads * d;
  const int32_t group = tree.heads / tree.kv_heads;
  std::vector<double> out(rows.size() * static_cast<size_t>(width));
  std::map<std::pair<int32_t, int32_t>, std::vector<float>> cache;  // (owner, position): k then v
  const int64_t kv_width = tree.kv_heads * d;
  std::vector<float> q(static_cast<size_t>(width));
  std::vector<double> score;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto [node, position] = rows[r];
    std::vector<const float*> kv;
    const int32_t first = tree.first_key(position);
    for (int32_t p = first; p <= tree.last_key(rows[r]); ++p) {
      std::vector<float>& entry = cache[{tree.owner(node, p), p}];
      if (entry.empty()) {
        entry.resize(2 * static_cast<size_t>(kv_width));
        const std::span<float> both = entry;
        tree.elements(Kind::kKey, node, p, 0, both.first(static_cast<size_t>(kv_width)));
        tree.elements(Kind::kValue, node, p, 0, both.last(static_cast<size_t>(kv_width)));
      }
      kv.push_back(entry.data());
    }
    tree.elements(Kind::kQuery, node, position, 0, q);
    for (int32_t head = 0; head < tree.heads; ++head) {
      const int64_t offset = head / group * d;
      score.assign(kv.size(), 0);
      double top = -std::numeric_limits<double>::infinity();
      for (size_t p = 0; p < kv.size(); ++p) {
        for (int64_t i = 0; i < d; ++i)
          score[p] += static_cast<double>(q[head * d + i]) * kv[p][offset + i];
        score[p] *= static_cast<double>(tree.scale());
        if (tree.soft_cap != 0) score[p] = tree.soft_cap * std::tanh(score[p] / tree.soft_cap);
        top = std::max(top, score[p]);
      }
      double sum = 0;
      if (!tree.sinks.empty()) {
        top = std::max(top, static_cast<double>(tree.sinks[head]));
        sum = std::exp(tree.sinks[head] - top);
      }
      double* row = out.data() + r * static_cast<size_t>(width) + head * d;
      for (size_t p = 0; p < kv.size(); ++p) {
        const double weight = std::exp(score[p] - top);
        sum += weight;
        for (int64_t i = 0; i < d; ++i) row[i] += weight * kv[p][kv_width + offset + i];
      }
      for (int64_t i = 0; i < d; ++i) row[i] /= sum;
    }
  }
  return out;
}

// What a device is given of it.
inline StepArrays arrays_of(const Tree& tree, const Step& step, std::byte* pool) {
  StepArrays arrays;
  arrays.positions = step.positions;
  arrays.attention = {&step.plan, 1};
  arrays.heads = tree.heads;
  arrays.kv = tree.layout();
  arrays.pool = pool;
  return arrays;
}

// out[rows, heads * head_dim] as `attend(arrays, args)` computes it with activations of type `type`
// and leading dimension `ld` (bf16 outputs widened: no bit is lost).
template <typename Attend>
std::vector<float> run_attention(Device& memory, DType type, int64_t ld, const Tree& tree,
                                 const Step& step, const Attend& attend) {
  const int64_t width = static_cast<int64_t>(tree.heads) * tree.head_dim;
  const int64_t rows = static_cast<int64_t>(step.rows.size());
  std::vector<std::byte> queries(static_cast<size_t>(rows * ld) * dtype_bytes(type),
                                 std::byte{0xff});
  std::vector<float> query(static_cast<size_t>(width));
  for (int64_t r = 0; r < rows; ++r) {
    tree.elements(Kind::kQuery, step.rows[r].node, step.rows[r].position, 0, query);
    for (int64_t i = 0; i < width; ++i) put(queries.data(), r * ld + i, type, query[i]);
  }
  const DeviceArray q(memory, queries), out(memory, queries.size()), pool(memory, step.pool);
  AttentionArgs args;
  args.q = {q.data(), ld};
  args.out = {out.data(), ld};
  args.scale = tree.scale();
  args.soft_cap = tree.soft_cap;
  if (!tree.sinks.empty()) args.sinks = tree.sinks.data();
  attend(arrays_of(tree, step, pool.data()), args);
  const std::vector<float> all = out.values(type);
  std::vector<float> result;
  for (int64_t r = 0; r < rows; ++r)
    result.insert(result.end(), all.begin() + r * ld, all.begin() + r * ld + width);
  return result;
}

inline std::vector<float> run_attention(Device& device, const Tree& tree, const Step& step) {
  const int64_t ld = device.act_ld(static_cast<int64_t>(tree.heads) * tree.head_dim);
  return run_attention(device, act_type(device), ld, tree, step,
                       [&](const StepArrays& arrays, const AttentionArgs& args) {
                         const std::unique_ptr<ops::Step> run = device.begin_step(arrays);
                         run->attention(args);
                         run->end();
                       });
}

inline double relative_l2(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / std::max(norm, 1e-300));
}

}  // namespace prefix::ops::testing
