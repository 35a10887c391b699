// The library in a program that computes otherwise: how a thread of the host rounds, and what it
// traps, changes no result and ends no process.
#include <fenv.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "abi_support.h"

namespace prefix_abi {
namespace {

// The results of an engine that is made and used by this thread.
std::vector<float> results(Settings settings, prefix_pool* pool = nullptr) {
  const Options options = make_options({{"cache_bytes", "16M"}});
  for (const auto& [key, value] : settings)
    expect(PREFIX_OK, [&, k = key, v = value](prefix_error* e) {
      return prefix_options_set(options, k, PREFIX_NUL, v, PREFIX_NUL, e);
    });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_options_set_pool(options, pool, e); });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  const Batch batch = make_batch(engine);
  for (prefix_token variant = 0; variant < 4; ++variant) {
    Tokens tokens(200);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<prefix_token>(i * 7 % 120) + (i > 100 ? variant : 0);
    add_logits(batch, tokens, {0, 1, 2, 3, 4, 5, 6, 7});
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_embedding(batch, tokens.data(), 150, nullptr, 0, nullptr, e);
    });
  }
  const Job job = run(engine, batch);
  std::vector<float> all(4 * (8 + 64));
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_all_values(job, all.data(), all.size(), &needed, nullptr, 0, e);
  });
  EXPECT_EQ(needed, all.size());
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Floats, AHostThatRoundsUpwardsGetsTheSameBits) {
  const std::vector<float> plain = results({{"threads", "2"}});
  ASSERT_EQ(fesetround(FE_UPWARD), 0);
  const std::vector<float> upwards = results({{"threads", "2"}});
  const Pool pool = make_pool();
  EXPECT_EQ(fegetround(), FE_UPWARD) << "the setting is the host's";
  fesetround(FE_TONEAREST);
  EXPECT_TRUE(same_bits(plain, upwards));
  EXPECT_TRUE(same_bits(plain, results({}, pool))) << "workers that a thread started which does";
}

#if defined(__x86_64__)
TEST(Floats, AHostThatTrapsWhatIsNoNumberGoesOn) {
  constexpr unsigned kTrapped = 0x1f80 & ~0x0680u;  // invalid, divided by zero, overflow
  const unsigned before = _mm_getcsr();
  for (const auto& [key, value] :
       {std::pair("kv", "int8"), std::pair("compute", "int8"), std::pair("dtype", "f32")}) {
    const std::vector<float> plain = results({{key, value}});
    _mm_setcsr(kTrapped);
    const std::vector<float> trapped = results({{key, value}});
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & ~0x3fu, kTrapped) << "the setting is the host's";
    EXPECT_TRUE(same_bits(plain, trapped));
  }
}
#endif

}  // namespace
}  // namespace prefix_abi
