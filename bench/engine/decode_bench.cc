// One sequence that is decoded, beside reading memory: a step reads all weights, so no engine makes more
// tokens a second than memory gives bytes for.
//
//   decode_bench MODEL [--option KEY=VALUE]... [--threads N] [--tokens N] [--turns N]
//
// A JSON line: bytes of weights that a token reads, GB/s of the same threads that read a buffer of as
// many bytes, the limit that follows, tokens a second, and their share of it, the median of the turns
// in which both took place one after the other.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/threads.h"
#include "batches.h"
#include "engine/memory_estimate.h"
#include "model/architecture.h"
#include "model/weights.h"

namespace {

using namespace prefix;  // a program, not a header

struct Settings {
  std::string model;
  Options options;
  int threads = 2, tokens = 48, turns = 7;
};

// Of a step of one row. An embedding that is no head is a row of it.
int64_t bytes_a_token(const Settings& s) {
  const ModelFiles files = open_model(s.model);
  const Weights weights = weight_shapes(files, find_architecture(files.config.architecture),
                                        device_options_of(s.options).types);
  return packed_bytes(weights) -
         (weights.tied ? 0 : static_cast<int64_t>(weights.embedding.bytes()));
}

// GB/s: every thread its share of the buffer, in pieces that go around.
double read_speed(Threads& threads, const std::vector<uint64_t>& buffer) {
  constexpr size_t kPiece = size_t{1} << 17;  // numbers
  const auto pieces = static_cast<int64_t>(buffer.size() / kPiece);
  std::vector<uint64_t> sums(static_cast<size_t>(pieces));
  const double begin = bench::seconds();
  threads.run(pieces, [&](int64_t piece, int) {
    const uint64_t* const from = buffer.data() + static_cast<size_t>(piece) * kPiece;
    uint64_t sum[8] = {};
    for (size_t i = 0; i < kPiece; i += 8)
      for (size_t j = 0; j < 8; ++j) sum[j] += from[i + j];
    for (const uint64_t one : sum) sums[static_cast<size_t>(piece)] += one;
  });
  const double seconds = bench::seconds() - begin;
  volatile uint64_t keep = 0;
  for (const uint64_t sum : sums) keep = keep + sum;
  return static_cast<double>(pieces) * kPiece * sizeof(uint64_t) / seconds / 1e9;
}

int measure(const Settings& s) {
  const auto engine = Engine::create(s.model, s.options, nullptr);
  const int64_t bytes = bytes_a_token(s);
  Threads threads(s.threads);
  const std::vector<uint64_t> buffer(static_cast<size_t>(bytes) / sizeof(uint64_t), 1);
  const auto time_of = [&](int tokens) {
    return bench::run(*engine, bench::make_batch({1, 4, 4, tokens}, 1, engine->info().vocab_size))
        .seconds;
  };
  time_of(2);  // touches memory
  read_speed(threads, buffer);
  std::vector<double> reads, rates, shares;
  for (int turn = 0; turn < s.turns; ++turn) {
    const double before = read_speed(threads, buffer);
    const double rate = s.tokens / (time_of(s.tokens + 1) - time_of(1));
    const double read = (before + read_speed(threads, buffer)) / 2;
    reads.push_back(read);
    rates.push_back(rate);
    shares.push_back(rate * static_cast<double>(bytes) / 1e9 / read);
  }
  std::printf(
      "{\"bench\": \"decode\", \"isa\": \"%s\", \"threads\": %d, \"options\": %s, \"weight_bytes\": "
      "%lld, \"read_gb_s\": %.4g, \"limit_tokens_s\": %.4g, \"tokens_s\": %.4g, \"share\": %.3f}\n",
      engine->info().isa.c_str(), s.threads, s.options.to_json().c_str(),
      static_cast<long long>(bytes), bench::median(reads),
      bench::median(reads) * 1e9 / static_cast<double>(bytes), bench::median(rates),
      bench::median(shares));
  return 0;
}

int usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s MODEL [--option KEY=VALUE]... [--threads N] [--tokens N] [--turns N]\n",
               program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage(argv[0]);
  try {
    Settings s;
    s.model = argv[1];
    s.options.set("cache", "false");
    s.options.set("cache_bytes", "256M");
    for (int i = 2; i < argc; i += 2) {
      const std::string flag = argv[i], value = argv[i + 1];
      const size_t equals = value.find('=');
      if (flag == "--option" && equals != value.npos)
        s.options.set(value.substr(0, equals), value.substr(equals + 1));
      else if (flag == "--threads")
        s.threads = std::atoi(value.c_str());
      else if (flag == "--tokens")
        s.tokens = std::atoi(value.c_str());
      else if (flag == "--turns")
        s.turns = std::atoi(value.c_str());
      else
        return usage(argv[0]);
    }
    s.options.set("threads", std::to_string(s.threads));
    return measure(s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
