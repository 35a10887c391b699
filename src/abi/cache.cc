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
