// Completion queues, through which one thread waits for any number of jobs and loads.
#include "abi/entry.h"

namespace {

using prefix::cat;
using prefix::Code;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::queue_of;
using prefix::abi::require;
using prefix::abi::Waited;

}  // namespace

extern "C" {

prefix_status prefix_queue_create(prefix_queue** out, prefix_error* err) {
  return guard("prefix_queue_create", err, [&] {
    require(out, "out");
    *out = static_cast<prefix_queue*>(
        HandleTable::get().add(Kind::kQueue, std::make_shared<prefix::CompletionQueue>()));
  });
}

prefix_status prefix_queue_retain(prefix_queue* queue, prefix_error* err) {
  return guard("prefix_queue_retain", err,
               [&] { HandleTable::get().retain(Kind::kQueue, queue, "the queue"); });
}

void prefix_queue_release(prefix_queue* queue) {
  guard("prefix_queue_release", nullptr, [&] { HandleTable::get().release(Kind::kQueue, queue); });
}

prefix_status prefix_queue_next(prefix_queue* queue, int64_t timeout_ms, int64_t* tag,
                                prefix_error* err) {
  return guard("prefix_queue_next", err, [&]() -> Waited {
    const auto q = queue_of(queue);
    require(tag, "tag");
    const auto next = q->next(timeout_ms);
    if (!next) return {Code::kTimeout, cat("no tag within ", timeout_ms, " ms")};
    *tag = *next;
    return {};
  });
}

prefix_status prefix_queue_post(prefix_queue* queue, int64_t tag, prefix_error* err) {
  return guard("prefix_queue_post", err, [&] {
    const auto q = queue_of(queue);
    q->promise();
    q->put(tag);
  });
}

prefix_status prefix_queue_descriptor(prefix_queue* queue, int32_t* descriptor, prefix_error* err) {
  return guard("prefix_queue_descriptor", err, [&] {
    const auto q = queue_of(queue);
    require(descriptor, "descriptor");
    *descriptor = q->descriptor();
  });
}

}  // extern "C"
