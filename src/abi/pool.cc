// Pools of worker threads that several engines share.
#include "engine/pool.h"

#include "abi/entry.h"

using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;

extern "C" {

prefix_status prefix_pool_create(const prefix_options* options, prefix_pool** out,
                                 prefix_error* err) {
  return guard("prefix_pool_create", err, [&] {
    prefix::abi::require(out, "out");
    HandleTable::refuse_forked_child("a new pool");  // before its threads start
    *out = static_cast<prefix_pool*>(
        HandleTable::get().add(Kind::kPool, prefix::make_pool(prefix::abi::options_of(options))));
  });
}

prefix_status prefix_pool_retain(prefix_pool* pool, prefix_error* err) {
  return guard("prefix_pool_retain", err,
               [&] { HandleTable::get().retain(Kind::kPool, pool, "the pool"); });
}

void prefix_pool_release(prefix_pool* pool) {
  guard("prefix_pool_release", nullptr, [&] { HandleTable::get().release(Kind::kPool, pool); });
}

}  // extern "C"
