// Tiny checkpoints whose weights make some values infinite or NaN, on the paths of one token only.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "support/tiny_engine.h"

namespace prefix::testing_support {

// The tensors of a checkpoint, as its file has them, to be changed in place.
class StoredWeights {
 public:
  explicit StoredWeights(const std::string& folder) : path_(folder + "/model.safetensors") {
    std::ifstream file(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    uint64_t length;
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = bytes_.substr(sizeof length, length);
  }
  ~StoredWeights() {
    std::ofstream file(path_, std::ios::binary);
    file.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  StoredWeights(const StoredWeights&) = delete;
  StoredWeights& operator=(const StoredWeights&) = delete;

  void set(const std::string& name, int64_t row, int64_t column, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const auto stored = static_cast<uint16_t>(bits >> 16);  // cut off: 3e38 stays finite
    const Tensor t = find(name);
    std::memcpy(bytes_.data() + t.begin + 2 * (row * t.columns + column), &stored, sizeof stored);
  }
  void set_row(const std::string& name, int64_t row, float value) {
    for (int64_t c = 0; c < find(name).columns; ++c) set(name, row, c, value);
  }
  void set_column(const std::string& name, int64_t column, float value) {
    const Tensor t = find(name);
    for (int64_t r = 0; r < t.rows; ++r) set(name, r, column, value);
  }

 private:
  struct Tensor {
    size_t begin;  // in the file
    int64_t rows, columns;
  };
  // As the writer of random checkpoints puts it.
  Tensor find(const std::string& name) const {
    const size_t at = header_.find("\"" + name + "\":");
    PREFIX_CHECK(at != std::string::npos);
    const auto numbers = [&](const char* key) {
      std::vector<int64_t> list;
      size_t i = header_.find(key, at);
      for (i = header_.find('[', i); header_[i] != ']';) {
        size_t used;
        list.push_back(std::stoll(header_.substr(i + 1, 20), &used));
        i += 1 + used;
      }
      return list;
    };
    const std::vector<int64_t> shape = numbers("\"shape\"");
    return {sizeof(uint64_t) + header_.size() + static_cast<size_t>(numbers("\"data_offsets\"")[0]),
            shape.size() == 2 ? shape[0] : 1, shape.back()};
  }

  std::string path_;
  std::string bytes_;
  std::string header_;
};

inline constexpr int32_t kBadToken = 7;

struct Poison {
  const char* name;
  bool always_fails;  // whatever has the token
  std::function<void(StoredWeights&)> apply;
};

inline tools::CheckpointShape poisoned_shape() {
  tools::CheckpointShape shape;
  shape.architecture = "llama";  // norms of q and k would keep them small
  shape.hidden = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.intermediate = 32;
  shape.tied = false;
  return shape;
}

// A column of the residual that only the bad token has anything in: what the weights of that column
// do, they do to it alone.
inline void reserve_column(StoredWeights& w, int64_t column) {
  w.set_column("model.embed_tokens.weight", column, 0);
  w.set("model.embed_tokens.weight", kBadToken, column, 50);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    w.set_row(std::string(layer) + "self_attn.o_proj.weight", column, 0);
    w.set_row(std::string(layer) + "mlp.down_proj.weight", column, 0);
  }
}

inline const std::vector<Poison>& poisons() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kHuge = 3e38f;
  constexpr int64_t kColumn = 5;
  static const auto embedding = [](float value) {
    return [value](StoredWeights& w) {
      w.set("model.embed_tokens.weight", kBadToken, kColumn, value);
    };
  };
  static const auto midway = [](std::string name) {
    return [name](StoredWeights& w) {
      reserve_column(w, kColumn);
      w.set_column("model.layers." + name + ".weight", kColumn, kHuge);
    };
  };
  static const std::vector<Poison> kPoisons = {
      {"nan", true, embedding(kNan)},
      {"nan_everywhere", true,
       [](StoredWeights& w) { w.set_row("model.embed_tokens.weight", kBadToken, kNan); }},
      {"infinity", true, embedding(kInfinity)},
      {"minus_infinity", true, embedding(-kInfinity)},
      {"huge", false, embedding(kHuge)},
      {"queries", true, midway("0.self_attn.q_proj")},
      {"keys", true, midway("0.self_attn.k_proj")},
      {"one_key", true,  // weighs nothing or makes NaN, as the sign of a query wants it
       [](StoredWeights& w) {
         reserve_column(w, kColumn);
         w.set("model.layers.0.self_attn.k_proj.weight", 0, kColumn, kHuge);
       }},
      {"values", true, midway("1.self_attn.v_proj")},
      {"gate", true, midway("0.mlp.gate_proj")},
      {"last_up", false, midway("1.mlp.up_proj")},  // keys and values stay finite, results do not
  };
  return kPoisons;
}

}  // namespace prefix::testing_support
