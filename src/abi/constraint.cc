// Constraints: functions of the caller that say which tokens may come next.
#include "abi/entry.h"

namespace {

using prefix::Code;
using prefix::Constraint;
using prefix::fail;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::require;

prefix_constraint_calls calls_in(const prefix_constraint_calls* given) {
  require(given, "calls");
  prefix::abi::require_struct(given);
  const prefix_constraint_calls calls = *given;
  if (!calls.begin) fail(Code::kInvalidArgument, "begin is NULL");
  if (!calls.allow) fail(Code::kInvalidArgument, "allow is NULL");
  if (!calls.accept) fail(Code::kInvalidArgument, "accept is NULL");
  if (!calls.end) fail(Code::kInvalidArgument, "end is NULL");
  return calls;
}

}  // namespace

extern "C" {

prefix_status prefix_constraint_create(const prefix_constraint_calls* calls, void* user,
                                       prefix_constraint** out, prefix_error* err) {
  return guard("prefix_constraint_create", err, [&] {
    require(out, "out");
    const prefix_constraint_calls c = calls_in(calls);
    const auto object =
        std::make_shared<Constraint>(Constraint::Calls{c.begin, c.allow, c.accept, c.end}, user);
    *out = static_cast<prefix_constraint*>(HandleTable::get().add(Kind::kConstraint, object));
    object->release_with(c.release);  // not where there is no handle
  });
}

prefix_status prefix_constraint_retain(prefix_constraint* constraint, prefix_error* err) {
  return guard("prefix_constraint_retain", err,
               [&] { HandleTable::get().retain(Kind::kConstraint, constraint, "the constraint"); });
}

void prefix_constraint_release(prefix_constraint* constraint) {
  guard("prefix_constraint_release", nullptr,
        [&] { HandleTable::get().release(Kind::kConstraint, constraint); });
}

}  // extern "C"
