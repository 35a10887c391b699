// The parts of gpu_bench. Each prints one JSON object a line.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/op.h"

namespace prefix::bench {

// How long to measure; tests ask for less.
struct Effort {
  int repeats = 9;
  double budget_us = 20e3;                // of the calls of one repeat
  size_t cold_bytes = size_t{256} << 20;  // more than the last cache of any GPU
  int32_t layers = 0;                     // of the pool; 0: of a model with so many heads
  int64_t blocker_rows = 4096, blocker_n = 24576, blocker_k = 4096;
};

class Blocker;  // blocker.h

std::string device_name(ops::Device& device);

// Its name, its processors, and how many clusters of attention for small steps run at once.
void bench_device(ops::Device& device);

// B sequences behind a shared prefix of P tokens, each with S tokens of its own, of which the last
// `rows` are computed now.
struct AttentionCase {
  const char* name;
  int32_t b, p, s, rows;
  int32_t heads, kv_heads;
};
std::span<const AttentionCase> attention_cases();

// One layer, called as a step calls it; the layers of an engine's pool take turns. Without sharing
// every sequence has pages of its own and tiles of its own: paged decoding as others do it.
void bench_attention(ops::Device& device, const AttentionCase& c, bool shared,
                     const Blocker& blocker, const Effort& effort = {}, const char* kernel = "mma");

struct Product {
  const char* model;
  const char* layer;
  int64_t n, k;
  bool adds = false;  // to the residual, in f32; else its results are activations
};
std::span<const Product> products();
void bench_product(ops::Device& device, const Product& product, int64_t rows,
                   const Blocker& blocker, const Effort& effort = {});

// Sequences behind one prefix, each with tokens of its own; then so many steps of decoding.
struct EngineCase {
  int sequences = 32, prefix = 2048, own = 256, steps = 64;
};
// By a model of that shape with random weights, shared and not: one score for each sequence, and a step
// that decodes one token of each.
void bench_engine(const std::string& shape, const std::string& device = "cuda",
                  const EngineCase& c = {});

}  // namespace prefix::bench
