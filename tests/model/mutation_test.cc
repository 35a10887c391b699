// Seeded mutations of good files through every parser: each must be refused with Error or read to
// the end. Run under the sanitizers this is a small fuzzer that needs no special compiler; the
// seeds make every failure repeatable.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/targets.h"
#include "model/gguf_writer.h"
#include "model/safetensors_writer.h"
#include "support/cases.h"

namespace prefix {
namespace {

using testing_support::Bytes;
using testing_support::cases;
using testing_support::entry;
using testing_support::GgufType;
using testing_support::GgufWriter;
using testing_support::safetensors_file;

// Numbers that parsers get wrong.
constexpr std::array<uint64_t, 16> kHostile = {0,
                                               1,
                                               7,
                                               31,
                                               255,
                                               256,
                                               65535,
                                               65536,
                                               INT32_MAX,
                                               uint64_t{1} << 31,
                                               UINT32_MAX,
                                               uint64_t{1} << 32,
                                               (uint64_t{1} << 62) + 1,
                                               INT64_MAX,
                                               uint64_t{1} << 63,
                                               UINT64_MAX};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  Bytes mutate(Bytes bytes) {
    for (uint64_t n = 1 + below(4); n > 0; --n) once(bytes);
    return bytes;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void once(Bytes& bytes) {
    if (bytes.empty()) return bytes.push_back(std::byte{0});
    const size_t at = below(bytes.size());
    const auto here = bytes.begin() + static_cast<ptrdiff_t>(at);
    const size_t some = std::min<size_t>(1 + below(16), bytes.size() - at);
    switch (below(8)) {
      case 0:  // a bit
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
        break;
      case 1:  // a byte
        bytes[at] = static_cast<std::byte>(below(256));
        break;
      case 2: {  // a number, at any place and of any width
        const uint64_t value = kHostile[below(kHostile.size())];
        std::memcpy(&bytes[at], &value, std::min<size_t>(size_t{1} << below(4), bytes.size() - at));
        break;
      }
      case 3: {  // a digit; in JSON this changes a size without breaking the syntax
        size_t i = at;
        while (i < bytes.size() && (bytes[i] < std::byte{'0'} || bytes[i] > std::byte{'9'})) ++i;
        if (i < bytes.size()) bytes[i] = static_cast<std::byte>('0' + below(10));
        break;
      }
      case 4:  // shorter
        bytes.erase(here, here + static_cast<ptrdiff_t>(some));
        break;
      case 5: {  // longer, by bytes of its own
        const Bytes piece(here, here + static_cast<ptrdiff_t>(some));
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size())), piece.begin(),
                     piece.end());
        break;
      }
      case 6:  // cut
        bytes.resize(at);
        break;
      default: {  // a piece copied over another
        const size_t to = below(bytes.size());
        std::memmove(&bytes[to], &bytes[at], std::min(some, bytes.size() - to));
        break;
      }
    }
  }

  std::mt19937_64 random_;
};

void run(const std::vector<Bytes>& good, int count,
         const std::function<bool(const Bytes&)>& parse) {
  for (const Bytes& bytes : good) EXPECT_TRUE(parse(bytes));
  int accepted = 0;
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(static_cast<uint64_t>(seed));
    accepted += parse(mutator.mutate(good[static_cast<size_t>(seed) % good.size()]));
  }
  // Mutations reach both outcomes, or they test nothing.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, count);
}

Bytes bytes_of(std::string_view text) {
  Bytes bytes;
  testing_support::append(bytes, text.data(), text.size());
  return bytes;
}

TEST(Mutation, Safetensors) {
  const std::string three =
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("weight", "F32", "[3,4]", "[0,48]") + "," +
      entry("bias", "BF16", "[6]", "[48,60]") + "," + entry("scalar", "F16", "[]", "[60,62]") +
      "," + entry("none", "F32", "[0,2]", "[62,62]") + "}";
  run({safetensors_file(three, 62), safetensors_file("{}", 0)}, cases(200000),
      [](const Bytes& bytes) { return fuzz::safetensors(bytes); });
}

Bytes small_gguf(const std::string& architecture) {
  GgufWriter w;
  const std::string a = architecture + ".";
  w.string("general.architecture", architecture).integer("general.alignment", 32);
  w.integer(a + "embedding_length", 8).integer(a + "block_count", 1);
  w.integer(a + "attention.head_count", 2).integer(a + "attention.head_count_kv", 1);
  w.integer(a + "feed_forward_length", 16).integer(a + "context_length", 64);
  w.number(a + "attention.layer_norm_rms_epsilon", 1e-5f);
  w.key(a + "vocab_size", GgufType::kU64, uint64_t{4});
  w.list("tokenizer.ggml.scores", GgufType::kF32, 2, Bytes(8));
  w.list("tokenizer.ggml.tokens", GgufType::kString, 2, Bytes(16));
  w.tensor("token_embd.weight", {8, 4}, 0, 128).tensor("q", {32, 2}, 3, 40);
  w.tensor("k", {256}, 14, 210).tensor("n", {8}, 30, 16);
  w.tensor("v", {256}, 10, 84).tensor("o", {256}, 11, 110).tensor("g", {256}, 23, 136);
  w.tensor("u", {32, 2}, 20, 36).tensor("d", {32, 2}, 39, 34);
  return w.bytes();
}

TEST(Mutation, Gguf) {
  run({small_gguf("llama"), small_gguf("phi3")}, cases(200000),
      [](const Bytes& bytes) { return fuzz::gguf(bytes); });
}

TEST(Mutation, Config) {
  const char* llama =
      R"({"model_type":"llama","vocab_size":1000,"hidden_size":64,"num_hidden_layers":2,
          "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,"head_dim":16,
          "max_position_embeddings":512,"rms_norm_eps":1e-5,"rope_theta":500000.0,
          "rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
          "high_freq_factor":4.0,"original_max_position_embeddings":256},"eos_token_id":[2,3]})";
  const char* phi3 =
      R"({"model_type":"phi3","vocab_size":99,"hidden_size":64,"num_hidden_layers":1,
          "num_attention_heads":8,"intermediate_size":96,"max_position_embeddings":512,
          "original_max_position_embeddings":128,"partial_rotary_factor":0.5,"eos_token_id":7,
          "rope_scaling":{"type":"longrope","short_factor":[1,1.5],"long_factor":[2,4]},
          "sliding_window":512,"torch_dtype":"bfloat16"})";
  const char* granite =
      R"({"model_type":"granitemoehybrid","vocab_size":99,"hidden_size":64,"num_hidden_layers":2,
          "num_attention_heads":4,"shared_intermediate_size":96,"max_position_embeddings":512,
          "num_local_experts":0,"layer_types":["mamba","attention"],"mamba_n_heads":8,
          "mamba_n_groups":2,"mamba_d_state":12,"mamba_d_head":"auto","mamba_d_conv":4,
          "time_step_limit":[0.01,{"__float__":"Infinity"}],"residual_multiplier":0.25,
          "position_embedding_type":"nope"})";
  const char* qwen =
      R"({"model_type":"qwen3_5","tie_word_embeddings":true,"text_config":{"vocab_size":99,
          "hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,"head_dim":32,
          "num_key_value_heads":2,"intermediate_size":96,"max_position_embeddings":512,
          "full_attention_interval":4,"linear_num_value_heads":6,"linear_num_key_heads":2,
          "linear_value_head_dim":20,"linear_key_head_dim":24,"linear_conv_kernel_dim":4,
          "rope_parameters":{"rope_theta":1e7,"partial_rotary_factor":0.25}}})";
  run({bytes_of(llama), bytes_of(phi3), bytes_of(granite), bytes_of(qwen)}, cases(100000),
      [](const Bytes& bytes) { return fuzz::config(bytes); });
}

Bytes corpus(const std::string& name) {
  std::ifstream file(std::string(PREFIX_TEST_DATA) + "/fuzz/corpus/" + name, std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST(Mutation, Quantised) {
  std::vector<Bytes> good;
  for (const char* name : {"packed", "int8", "mxfp4_packed", "awq", "gptq", "fp8", "mxfp4"})
    good.push_back(corpus(std::string("quantised/") + name));
  run(good, cases(200000), [](const Bytes& bytes) { return fuzz::quantised(bytes); });
}

TEST(Mutation, Packed) {
  run({corpus("packed/good")}, cases(50000),
      [](const Bytes& bytes) { return fuzz::packed(bytes); });
}

TEST(Mutation, QuantizationConfig) {
  run({corpus("config/gptq"), corpus("config/compressed")}, cases(100000),
      [](const Bytes& bytes) { return fuzz::config(bytes); });
}

TEST(Mutation, Json) {
  run({bytes_of(R"({"a":[1,-2,3.5e7,true,false,null,"x\u00e9\n"],"b":{"c":[],"d":{}}})"),
       bytes_of("[[[[1]]],18446744073709551615,-9223372036854775808,1e300]")},
      cases(200000), [](const Bytes& bytes) { return fuzz::json(bytes); });
}

}  // namespace
}  // namespace prefix
