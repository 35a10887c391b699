#include "abi/entry.h"

using prefix::abi::engine_of;
using prefix::abi::guard;

extern "C" {

prefix_status prefix_cache_lookup(const prefix_engine* engine, int32_t ns,
                                  const prefix_token* tokens, size_t n_tokens,
                                  prefix_cache_info* out, prefix_error* err) {
  return guard("prefix_cache_lookup", err, [&] {
    const std::vector<prefix_token> copy = prefix::abi::array_in(tokens, n_tokens, "tokens");
    const prefix::CacheInfo found = engine_of(engine)->cache_lookup(ns, copy.data(), copy.size());
    prefix_cache_info info{};
    info.cached_tokens = found.cached_tokens;
    info.pending_tokens = found.pending_tokens;
    prefix::abi::struct_out(info, out);
  });
}

prefix_status prefix_cache_get_usage(const prefix_engine* engine, int32_t ns,
                                     prefix_cache_usage* out, prefix_error* err) {
  return guard("prefix_cache_get_usage", err, [&] {
    const prefix::CacheUsage found = engine_of(engine)->cache_usage(ns);
    prefix_cache_usage usage{};
    usage.tokens = found.tokens;
    usage.bytes = found.bytes;
    usage.floor_bytes = found.floor_bytes;
    usage.quota_bytes = found.quota_bytes;
    prefix::abi::struct_out(usage, out);
  });
}

prefix_status prefix_cache_set_limits(prefix_engine* engine, int32_t ns, int64_t floor_bytes,
                                      int64_t quota_bytes, prefix_error* err) {
  return guard("prefix_cache_set_limits", err,
               [&] { engine_of(engine)->set_cache_limits(ns, floor_bytes, quota_bytes); });
}

prefix_status prefix_cache_pin(prefix_engine* engine, int32_t ns, const prefix_token* tokens,
                               size_t n_tokens, int64_t ttl_ms, int64_t* lease, int64_t* pinned,
                               prefix_error* err) {
  return guard("prefix_cache_pin", err, [&] {
    prefix::abi::require(lease, "lease");
    const auto copy = prefix::abi::array_in(tokens, n_tokens, "tokens");
    const prefix::CachePin pin = engine_of(engine)->cache_pin(ns, copy.data(), copy.size(), ttl_ms);
    *lease = pin.lease;
    if (pinned) *pinned = pin.tokens;
  });
}

prefix_status prefix_cache_unpin(prefix_engine* engine, int64_t lease, prefix_error* err) {
  return guard("prefix_cache_unpin", err, [&] { engine_of(engine)->cache_unpin(lease); });
}

prefix_status prefix_cache_evict(prefix_engine* engine, int32_t ns, const prefix_token* tokens,
                                 size_t n_tokens, int64_t* freed, prefix_error* err) {
  return guard("prefix_cache_evict", err, [&] {
    const auto copy = prefix::abi::array_in(tokens, n_tokens, "tokens");
    const int64_t evicted = engine_of(engine)->cache_evict(ns, copy.data(), copy.size());
    if (freed) *freed = evicted;
  });
}

prefix_status prefix_cache_trim(prefix_engine* engine, int64_t target_bytes, int64_t* freed,
                                prefix_error* err) {
  return guard("prefix_cache_trim", err, [&] {
    const int64_t tokens = engine_of(engine)->cache_trim(target_bytes);
    if (freed) *freed = tokens;
  });
}

prefix_status prefix_cache_tree_json(const prefix_engine* engine, char* buf, size_t cap,
                                     size_t* needed, prefix_error* err) {
  return guard("prefix_cache_tree_json", err,
               [&] { prefix::abi::text_out(engine_of(engine)->tree_json(), buf, cap, needed); });
}

}  // extern "C"
