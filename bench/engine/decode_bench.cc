// One sequence that is decoded, beside reading memory: a step reads all weights, so no engine makes more
// tokens a second than memory gives bytes for.
//
// A JSON line: bytes of weights that a token reads, GB/s of the same threads that read a buffer of as
// many bytes, the limit that follows, tokens a second, and their share of it, the median of the turns
// in which both took place one after the other.
#include <cstdint>
#include <string>
#include <vector>

#include "../line.h"
#include "base/threads.h"
#include "batches.h"
#include "engine/memory_estimate.h"
#include "model/architecture.h"
#include "model/load/weights.h"

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

constexpr size_t kPiece = size_t{1} << 17;  // numbers

// GB/s: every thread its share of the buffer, in pieces that go around.
double read_speed(Threads& threads, const std::vector<uint64_t>& buffer) {
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

void measure(const Settings& s) {
  const auto engine = Engine::create(s.model, s.options, nullptr);
  const int64_t bytes = bytes_a_token(s);
  Threads threads(s.threads);
  const size_t numbers = static_cast<size_t>(bytes) / sizeof(uint64_t);
  const std::vector<uint64_t> buffer((numbers + kPiece - 1) / kPiece * kPiece, 1);
  const auto time_of = [&](int tokens) {
    return bench::run(*engine, bench::make_batch({1, 4, 4, tokens}, 1, engine->info().vocab_size))
        .seconds;
  };
  time_of(2);  // touches memory
  read_speed(threads, buffer);
  std::vector<double> reads, rates, shares;
  for (int turn = 0; turn < s.turns; ++turn) {
    const double before = read_speed(threads, buffer);
    const double more = time_of(s.tokens + 1) - time_of(1);
    if (more <= 0)
      fail(Code::kInternal, "a token took no longer than ", s.tokens + 1,
           " of them: other programs keep the processors busy, or --tokens is too small");
    const double rate = s.tokens / more;
    const double read = (before + read_speed(threads, buffer)) / 2;
    reads.push_back(read);
    rates.push_back(rate);
    shares.push_back(rate * static_cast<double>(bytes) / 1e9 / read);
  }
  const double read = bench::median(reads);
  bench::Line line("decode");
  line.field("isa", engine->info().isa).field("threads", s.threads);
  line.json("options", s.options.to_json()).field("weight_bytes", bytes).field("read_gb_s", read);
  line.field("limit_tokens_s", read * 1e9 / static_cast<double>(bytes));
  line.field("tokens_s", bench::median(rates)).field("share", bench::median(shares)).print();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  s.options.set("cache", "false");
  s.options.set("cache_bytes", "256M");
  bench::Program program(
      "decode_bench",
      "tokens a second of one sequence, and their share of what reading all weights for each of them\n"
      "would allow: GB/s that the same threads read in the same turns",
      "MODEL --threads 1 --tokens 32 --turns 1");
  program.argument("MODEL", "a directory or a .gguf file", s.model);
  program.option("--option", "KEY=VALUE", "of the engine", [&](const std::string& option) {
    bench::set_option(s.options, "--option", option);
  });
  program.option("--threads", "N", "of the engine", s.threads, 1, 1024);
  program.option("--tokens", "N", "of a turn", s.tokens, 1, 1 << 20);
  program.option("--turns", "N", "of which the median counts", s.turns, 1, 1000);
  return program.run(argc, argv, [&] {
    s.options.set("threads", std::to_string(s.threads));
    measure(s);
  });
}
