// The cache of an engine: lookups, limits, leases, eviction, events and snapshots.
#include "abi/entry.h"
#include "base/json_text.h"

using prefix::abi::engine_of;
using prefix::abi::guard;

namespace {

prefix_snapshot_info snapshot_info(const prefix::SnapshotResult& r) {
  prefix_snapshot_info info{};
  info.namespaces = r.namespaces;
  info.nodes = r.nodes;
  info.tokens = r.tokens;
  info.states = r.states;
  info.bytes = r.bytes;
  info.skipped_tokens = r.skipped_tokens;
  return info;
}

}  // namespace

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

prefix_status prefix_cache_lookup_many(const prefix_engine* engine, int32_t ns,
                                       const prefix_token* tokens, size_t n_tokens,
                                       const int64_t* offsets, size_t n_offsets, int64_t* cached,
                                       size_t capacity, size_t* needed, prefix_error* err) {
  return guard("prefix_cache_lookup_many", err, [&] {
    const auto copy = prefix::abi::array_in(tokens, n_tokens, "tokens");
    const auto prompts =
        prefix::abi::pieces_in(std::span<const prefix_token>(copy), offsets, n_offsets, "prompts");
    std::vector<int64_t> found;
    for (const prefix::CacheInfo& info : engine_of(engine)->cache_lookup(ns, prompts))
      found.push_back(info.cached_tokens);
    prefix::abi::array_out(found.data(), found.size(), cached, capacity, needed, "cached");
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

prefix_status prefix_cache_next_event(const prefix_engine* engine, int64_t from,
                                      prefix_cache_event* event, prefix_token* tokens,
                                      size_t capacity, size_t* needed, prefix_error* err) {
  return guard("prefix_cache_next_event", err, [&] {
    prefix::abi::require_struct(event);
    if (from < 0) prefix::fail(prefix::Code::kOutOfRange, "from is ", from, ", below 0");
    const prefix::CacheEvent found = engine_of(engine)->read_event(from);
    prefix_cache_event out{};
    out.kind = found.kind;
    out.sequence = found.sequence;
    out.block = static_cast<int64_t>(found.block);
    out.parent = static_cast<int64_t>(found.parent);
    out.ns = found.name_space;
    out.position = found.position;
    out.time_us = found.time_ns / 1000;
    prefix::abi::array_out(found.tokens.data(), found.tokens.size(), tokens, capacity, needed,
                           "tokens");
    prefix::abi::struct_out(out, event);
  });
}

prefix_status prefix_cache_dump_events(const prefix_engine* engine, char* buf, size_t cap,
                                       size_t* needed, prefix_error* err) {
  return guard("prefix_cache_dump_events", err, [&] {
    const prefix::EventDump dump = engine_of(engine)->dump_events();
    std::string text;
    for (const prefix::CacheEvent& e : dump.blocks) {
      prefix::JsonText line;
      line.open('{').field("block", e.block).field("parent", e.parent);
      line.field("namespace", e.name_space).field("position", e.position);
      text += line.list("tokens", e.tokens).close('}').text() + "\n";
    }
    text += prefix::cat("{\"next\":", dump.next, "}\n");
    prefix::abi::text_out(text, buf, cap, needed);
  });
}

prefix_status prefix_snapshot_save(prefix_engine* engine, const char* path, size_t path_len,
                                   const int32_t* ns, size_t n_ns, prefix_snapshot_info* out,
                                   prefix_error* err) {
  return guard("prefix_snapshot_save", err, [&] {
    if (out) prefix::abi::require_struct(out, sizeof(prefix_snapshot_info));
    const std::string where = prefix::abi::path_in(path, path_len);
    const auto saved =
        engine_of(engine)->save_snapshot(where, prefix::abi::array_in(ns, n_ns, "ns"));
    if (out) prefix::abi::struct_out(snapshot_info(saved), out);
  });
}

prefix_status prefix_snapshot_load(prefix_engine* engine, const char* path, size_t path_len,
                                   prefix_snapshot_info* out, prefix_error* err) {
  return guard("prefix_snapshot_load", err, [&] {
    if (out) prefix::abi::require_struct(out, sizeof(prefix_snapshot_info));
    const auto loaded = engine_of(engine)->load_snapshot(prefix::abi::path_in(path, path_len));
    if (out) prefix::abi::struct_out(snapshot_info(loaded), out);
  });
}

}  // extern "C"
