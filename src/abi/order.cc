// Orders, parts and estimates: what callers give is checked here, the numbers come from src/tree.
#include <algorithm>
#include <span>

#include "abi/entry.h"
#include "tree/partition.h"
#include "tree/sorted_prompts.h"
#include "tree/table_order.h"

namespace prefix::abi {
namespace {

constexpr size_t kMaxColumns = 65536;
constexpr size_t kMaxRows = INT32_MAX;
constexpr int32_t kMaxParts = 1 << 20;
constexpr double kMaxBalance = 1e6;
constexpr double kBalance = 1.05;

// Their room is checked before anything is computed.
template <typename T>
void require_room(const T* out, size_t capacity, size_t n, const char* name) {
  takes(n, out, name, capacity);
}

template <typename List, typename T>
void list_out(const List& list, T* out, size_t capacity) {
  if (capacity > 0) std::copy(list.begin(), list.end(), out);
}

size_t rows_of(size_t n_values, size_t n_columns) {
  if (n_columns == 0) fail(Code::kInvalidArgument, "n_columns is 0; a table has at least 1 column");
  if (n_columns > kMaxColumns)
    fail(Code::kOutOfRange, "n_columns is ", n_columns, ", above ", kMaxColumns);
  if (n_values == 0) fail(Code::kInvalidArgument, "n_values is 0; a table has at least 1 row");
  if (n_values % n_columns != 0)
    fail(Code::kInvalidArgument, "n_values is ", n_values, ", which is not a multiple of the ",
         n_columns, " columns");
  const size_t rows = n_values / n_columns;
  if (rows > kMaxRows) fail(Code::kOutOfRange, "n_values makes ", rows, " rows, above ", kMaxRows);
  return rows;
}

std::span<const int32_t> lengths_in(const int32_t* lengths, size_t n_lengths, size_t n_values,
                                    size_t n_columns, std::vector<int32_t>& ones) {
  if (n_lengths == 0) {
    ones.assign(n_values, 1);
    return ones;
  }
  if (n_lengths != n_values)
    fail(Code::kInvalidArgument, "n_lengths is ", n_lengths, "; it must be 0 or as n_values, ",
         n_values);
  const std::span<const int32_t> all = span_in(lengths, n_lengths, "lengths");
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] < 0)
      fail(Code::kOutOfRange, "the length of row ", i / n_columns, ", column ", i % n_columns,
           " is ", all[i], ", below 0");
  return all;
}

std::vector<std::span<const prefix_token>> prompts_in(const prefix_token* tokens, size_t n_tokens,
                                                      const int64_t* offsets, size_t n_offsets) {
  const std::span<const prefix_token> all = span_in(tokens, n_tokens, "tokens");
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] < 0)
      fail(Code::kOutOfRange, "token ", i, " is ", all[i], ", outside [0, ", INT32_MAX, "]");
  return pieces_in(all, offsets, n_offsets, "prompts");
}

void require_parts(int32_t n_parts) {
  if (n_parts < 1 || n_parts > kMaxParts)
    fail(Code::kOutOfRange, "n_parts is ", n_parts, ", outside [1, ", kMaxParts, "]");
}

double balance_in(double balance) {
  if (balance == 0) return kBalance;
  if (!(balance >= 1 && balance <= kMaxBalance))
    fail(Code::kOutOfRange, "balance is ", number_text(balance), ", neither 0 nor in [1, ",
         number_text(kMaxBalance), "]");
  return balance;
}

}  // namespace
}  // namespace prefix::abi

using prefix::abi::guard;
using prefix::abi::list_out;
using prefix::abi::prompts_in;
using prefix::abi::require_room;
using prefix::abi::require_struct;
using prefix::abi::struct_out;

extern "C" {

prefix_status prefix_order(const int64_t* values, size_t n_values, const int32_t* lengths,
                           size_t n_lengths, size_t n_columns, int64_t* rows, size_t capacity_rows,
                           int32_t* columns, size_t capacity_columns, prefix_order_info* out,
                           prefix_error* err) {
  return guard("prefix_order", err, [&] {
    if (out) require_struct(out);
    const std::span<const int64_t> cells = prefix::abi::span_in(values, n_values, "values");
    const size_t n_rows = prefix::abi::rows_of(n_values, n_columns);
    std::vector<int32_t> ones;
    const std::span<const int32_t> all =
        prefix::abi::lengths_in(lengths, n_lengths, n_values, n_columns, ones);
    require_room(rows, capacity_rows, n_rows, "rows");
    require_room(columns, capacity_columns, n_values, "columns");
    const prefix::TableOrder found =
        prefix::order_table(cells, all, static_cast<int32_t>(n_columns));
    list_out(found.rows, rows, capacity_rows);
    list_out(found.columns, columns, capacity_columns);
    if (out) struct_out({0, 0, found.tokens, found.hit_before, found.hit}, out);
  });
}

prefix_status prefix_partition(const prefix_token* tokens, size_t n_tokens, const int64_t* offsets,
                               size_t n_offsets, int32_t n_parts, double balance, int32_t* parts,
                               size_t capacity_parts, int64_t* order, size_t capacity_order,
                               int64_t* work, size_t capacity_work, prefix_partition_info* out,
                               prefix_error* err) {
  return guard("prefix_partition", err, [&] {
    if (out) require_struct(out);
    const auto prompts = prompts_in(tokens, n_tokens, offsets, n_offsets);
    prefix::abi::require_parts(n_parts);
    const double limit = prefix::abi::balance_in(balance);
    require_room(parts, capacity_parts, prompts.size(), "parts");
    require_room(order, capacity_order, prompts.size(), "order");
    require_room(work, capacity_work, static_cast<size_t>(n_parts), "work");
    const prefix::Partition found = prefix::partition(prompts, n_parts, limit);
    list_out(found.part, parts, capacity_parts);
    list_out(found.order, order, capacity_order);
    list_out(found.work, work, capacity_work);
    prefix_partition_info info = PREFIX_PARTITION_INFO_INIT;
    info.tokens = found.given;
    info.distinct = found.distinct;
    for (const int64_t tokens_of_part : found.work) {
      info.computed += tokens_of_part;
      info.largest = std::max(info.largest, tokens_of_part);
    }
    if (out) struct_out(info, out);
  });
}

prefix_status prefix_estimate_batch(const prefix_token* tokens, size_t n_tokens,
                                    const int64_t* offsets, size_t n_offsets, int64_t* computed,
                                    size_t capacity, prefix_estimate_info* out, prefix_error* err) {
  return guard("prefix_estimate_batch", err, [&] {
    if (out) require_struct(out);
    const auto prompts = prompts_in(tokens, n_tokens, offsets, n_offsets);
    require_room(computed, capacity, prompts.size(), "computed");
    const prefix::BatchEstimate found = prefix::estimate_batch(prompts);
    list_out(found.by_prompt, computed, capacity);
    if (out) struct_out({0, 0, found.given, found.computed}, out);
  });
}

}  // extern "C"
