// Sources: files of a model that come from memory or from a reader of the caller.
#include "abi/entry.h"
#include "base/quote.h"

namespace {

using prefix::Code;
using prefix::fail;
using prefix::abi::find;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::require;
using prefix::abi::SourceObject;
using prefix::abi::text_in;

// Adds what `add(files, name)` does.
template <typename Add>
void add_file(prefix_source* source, const char* name, size_t name_len, const Add& add) {
  const auto object = find<SourceObject>(Kind::kSource, source, "the source");
  const std::string text(text_in(name, name_len, "name"));
  std::lock_guard lock(object->mutex);
  add(object->files, text);
}

}  // namespace

extern "C" {

prefix_status prefix_source_create(prefix_source** out, prefix_error* err) {
  return guard("prefix_source_create", err, [&] {
    require(out, "out");
    *out = static_cast<prefix_source*>(
        HandleTable::get().add(Kind::kSource, std::make_shared<SourceObject>()));
  });
}

prefix_status prefix_source_retain(prefix_source* source, prefix_error* err) {
  return guard("prefix_source_retain", err,
               [&] { HandleTable::get().retain(Kind::kSource, source, "the source"); });
}

void prefix_source_release(prefix_source* source) {
  guard("prefix_source_release", nullptr,
        [&] { HandleTable::get().release(Kind::kSource, source); });
}

prefix_status prefix_source_add_buffer(prefix_source* source, const char* name, size_t name_len,
                                       const void* data, size_t size, prefix_error* err) {
  return guard("prefix_source_add_buffer", err, [&] {
    add_file(source, name, name_len, [&](prefix::FedFiles& files, const std::string& text) {
      if (size > 0) require(data, "data");
      if (size > prefix::abi::kMaxInputBytes)
        fail(Code::kOutOfRange, "data is said to have ", size, " bytes");
      files.add(text, std::span(static_cast<const std::byte*>(data), size));
    });
  });
}

prefix_status prefix_source_add_reader(prefix_source* source, const char* name, size_t name_len,
                                       int64_t size, prefix_read_at read, void* user,
                                       prefix_error* err) {
  return guard("prefix_source_add_reader", err, [&] {
    add_file(source, name, name_len, [&](prefix::FedFiles& files, const std::string& text) {
      if (!read) fail(Code::kInvalidArgument, "read is NULL");
      if (size < 0 || static_cast<uint64_t>(size) > prefix::abi::kMaxInputBytes)
        fail(Code::kOutOfRange, "size is ", size, ", outside [0, ", prefix::abi::kMaxInputBytes,
             "]");
      files.add(text, static_cast<uint64_t>(size),
                [read, user, shown = prefix::quote(text)](uint64_t at, size_t count, void* to) {
                  const int32_t answer = read(user, static_cast<int64_t>(at), to, count);
                  if (answer != 0)
                    fail(Code::kIo, "cannot read ", shown, ": its reader answered ", answer,
                         " for ", count, " bytes at byte ", at);
                });
    });
  });
}

}  // extern "C"
