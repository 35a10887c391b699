// Batches: requests with copies of all that the caller gives for them. Their options are checked
// here, the rest of a request when it is submitted, because a batch may have no engine.
#include <iterator>
#include <span>

#include "abi/entry.h"
#include "base/quote.h"
#include "engine/logit_bias.h"
#include "engine/plan_preview.h"

namespace {

using prefix::Code;
using prefix::fail;
using prefix::Pooling;
using prefix::RequestSpec;
using prefix::Task;
using prefix::abi::array_in;
using prefix::abi::BatchObject;
using prefix::abi::find;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::Kind;
using prefix::abi::require;

std::shared_ptr<BatchObject> object_of(const prefix_batch* batch) {
  return find<BatchObject>(Kind::kBatch, batch, "the batch");
}

// Checks that the options are such as this request takes.
void require_scopes(const prefix::Options& options, Task task) {
  using Scope = prefix::OptionScope;
  switch (task) {
    case Task::kGenerate:
      return options.require_scopes({Scope::kRequest, Scope::kGenerate}, "generation");
    case Task::kEmbed:
      return options.require_scopes({Scope::kRequest, Scope::kEmbedding}, "an embedding");
    case Task::kLogits:
      return options.require_scopes({Scope::kRequest}, "a request for logits");
    case Task::kLogprobs:
      return options.require_scopes({Scope::kRequest}, "a request for log-probabilities",
                                    "top_logprobs");
    case Task::kChoices:
      return options.require_scopes({Scope::kRequest}, "a request with choices");
    case Task::kWarm:
      return options.require_scopes({Scope::kRequest}, "a request to warm the cache");
  }
}

Pooling pooling_of(const std::string& name) {
  return name == "mean"     ? Pooling::kMean
         : name == "first"  ? Pooling::kFirst
         : name == "tokens" ? Pooling::kTokens
                            : Pooling::kLast;
}

// The request with its options; the namespace stays a name until the batch is run.
RequestSpec make_spec(Task task, const prefix_token* tokens, size_t n_tokens,
                      const prefix_options* options, int64_t user_tag, std::string* name_space) {
  RequestSpec spec;
  spec.task = task;
  spec.tokens = array_in(tokens, n_tokens, "tokens");
  spec.user_tag = user_tag;
  if (!options) return spec;
  const auto object = find<prefix::abi::OptionsObject>(Kind::kOptions, options, "options");
  std::lock_guard lock(object->mutex);
  const prefix::Options& o = object->options;
  require_scopes(o, task);
  *name_space = o.get("namespace");
  spec.name_space = static_cast<int32_t>(o.get_int("namespace_id"));
  if (spec.name_space > 0 && !name_space->empty())
    fail(Code::kInvalidArgument, "the request has both a namespace, ", prefix::quote(*name_space),
         ", and a namespace_id, ", spec.name_space, "; it takes one");
  spec.adapter = o.get("adapter");
  spec.deadline_ms = o.get_int("deadline_ms");
  spec.priority = static_cast<int32_t>(o.get_int("priority"));
  spec.cache_priority = static_cast<int32_t>(o.get_int("cache_priority"));
  spec.cache_ttl_ms = o.get_int("cache_ttl_ms");
  spec.checkpoint = o.get_ints("checkpoint");
  spec.dimensions = static_cast<int32_t>(o.get_int("dimensions"));
  spec.normalize = o.get_bool("normalize");
  spec.head = o.get_bool("head");
  spec.dense = o.get_bool("dense");
  spec.pooling = pooling_of(o.get("pooling"));
  spec.positions = o.get_ints("positions");
  prefix::Sampling& s = spec.sampling;
  s.max_tokens = static_cast<int32_t>(o.get_int("max_tokens"));
  s.temperature = static_cast<float>(o.get_float("temperature"));
  s.top_k = static_cast<int32_t>(o.get_int("top_k"));
  s.top_p = static_cast<float>(o.get_float("top_p"));
  s.min_p = static_cast<float>(o.get_float("min_p"));
  s.repetition_penalty = static_cast<float>(o.get_float("repetition_penalty"));
  s.presence_penalty = static_cast<float>(o.get_float("presence_penalty"));
  s.frequency_penalty = static_cast<float>(o.get_float("frequency_penalty"));
  s.logit_bias = prefix::parse_logit_bias(o.get("logit_bias"));
  s.allowed_tokens = o.get_ints("allowed_tokens");
  s.min_tokens = static_cast<int32_t>(o.get_int("min_tokens"));
  s.seed = o.get_int("seed");
  s.ignore_eos = o.get_bool("ignore_eos");
  s.stop_tokens = o.get_ints("stop_tokens");
  s.logprobs = o.get_bool("logprobs");
  spec.top_logprobs = static_cast<int32_t>(o.get_int("top_logprobs"));
  spec.draft_tokens = static_cast<int32_t>(o.get_int("draft_tokens"));
  return spec;
}

// Checked lists of tokens: list i = tokens[offsets[i] .. offsets[i + 1]).
std::vector<std::vector<int32_t>> lists_in(const prefix_token* tokens, size_t n_tokens,
                                           const int64_t* offsets, size_t n_offsets) {
  require(offsets, "offsets");
  if (n_offsets < 2)
    fail(Code::kInvalidArgument, "there are no choices: n_offsets is ", n_offsets, "; at least 2");
  const std::vector<prefix_token> all = array_in(tokens, n_tokens, "choice_tokens");
  std::vector<std::vector<int32_t>> lists;
  for (const auto piece :
       prefix::abi::pieces_in(std::span<const prefix_token>(all), offsets, n_offsets, "choices"))
    lists.emplace_back(piece.begin(), piece.end());
  return lists;
}

template <typename T>
void make_room(std::vector<T>& list, size_t more) {
  if (list.capacity() - list.size() < more)
    list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}

// All or nothing: what needs memory comes before the first change.
void append(BatchObject& batch, std::span<RequestSpec> specs, const std::string& name_space,
            size_t* index) {
  std::vector<std::string> names(specs.size(), name_space);
  std::lock_guard lock(batch.mutex);
  make_room(batch.requests, specs.size());
  make_room(batch.namespaces, specs.size());
  if (index) *index = batch.requests.size();
  std::move(specs.begin(), specs.end(), std::back_inserter(batch.requests));
  std::move(names.begin(), names.end(), std::back_inserter(batch.namespaces));
}

// complete(spec) adds what is special to the task. A template, so that nothing here takes memory
// before the guard that answers for it.
template <typename Complete>
prefix_status add(const char* function, prefix_batch* batch, Task task, const prefix_token* tokens,
                  size_t n_tokens, const prefix_options* options, int64_t user_tag, size_t* index,
                  prefix_error* err, const Complete& complete) {
  return guard(function, err, [&] {
    const auto object = object_of(batch);
    std::string name_space;
    RequestSpec spec = make_spec(task, tokens, n_tokens, options, user_tag, &name_space);
    complete(spec);
    append(*object, {&spec, 1}, name_space, index);
  });
}

}  // namespace

extern "C" {

prefix_status prefix_batch_create(prefix_engine* engine, prefix_batch** out, prefix_error* err) {
  return guard("prefix_batch_create", err, [&] {
    require(out, "out");
    auto object = std::make_shared<BatchObject>();
    if (engine)
      object->engine = find<prefix::abi::EngineObject>(Kind::kEngine, engine, "the engine");
    *out = static_cast<prefix_batch*>(HandleTable::get().add(Kind::kBatch, std::move(object)));
  });
}

prefix_status prefix_batch_retain(prefix_batch* batch, prefix_error* err) {
  return guard("prefix_batch_retain", err,
               [&] { HandleTable::get().retain(Kind::kBatch, batch, "the batch"); });
}

void prefix_batch_release(prefix_batch* batch) {
  guard("prefix_batch_release", nullptr, [&] { HandleTable::get().release(Kind::kBatch, batch); });
}

prefix_status prefix_batch_clear(prefix_batch* batch, prefix_error* err) {
  return guard("prefix_batch_clear", err, [&] {
    const auto object = object_of(batch);
    std::lock_guard lock(object->mutex);
    object->requests.clear();
    object->namespaces.clear();
  });
}

prefix_status prefix_batch_count(const prefix_batch* batch, size_t* count, prefix_error* err) {
  return guard("prefix_batch_count", err, [&] {
    require(count, "count");
    const auto object = object_of(batch);
    std::lock_guard lock(object->mutex);
    *count = object->requests.size();
  });
}

prefix_status prefix_batch_add_logits(prefix_batch* batch, const prefix_token* tokens,
                                      size_t n_tokens, const prefix_token* ids, size_t n_ids,
                                      const prefix_options* options, int64_t user_tag,
                                      size_t* index, prefix_error* err) {
  return add("prefix_batch_add_logits", batch, Task::kLogits, tokens, n_tokens, options, user_tag,
             index, err, [&](RequestSpec& spec) { spec.logit_ids = array_in(ids, n_ids, "ids"); });
}

prefix_status prefix_batch_add_logprobs(prefix_batch* batch, const prefix_token* tokens,
                                        size_t n_tokens, int32_t from,
                                        const prefix_options* options, int64_t user_tag,
                                        size_t* index, prefix_error* err) {
  return add("prefix_batch_add_logprobs", batch, Task::kLogprobs, tokens, n_tokens, options,
             user_tag, index, err, [&](RequestSpec& spec) { spec.from = from; });
}

prefix_status prefix_batch_add_choices(prefix_batch* batch, const prefix_token* tokens,
                                       size_t n_tokens, const prefix_token* choice_tokens,
                                       size_t n_choice_tokens, const int64_t* offsets,
                                       size_t n_offsets, const prefix_options* options,
                                       int64_t user_tag, size_t* index, prefix_error* err) {
  return add("prefix_batch_add_choices", batch, Task::kChoices, tokens, n_tokens, options, user_tag,
             index, err, [&](RequestSpec& spec) {
               spec.choices = lists_in(choice_tokens, n_choice_tokens, offsets, n_offsets);
             });
}

prefix_status prefix_batch_add_continuations(prefix_batch* batch, const prefix_token* tokens,
                                             size_t n_tokens, const prefix_token* choice_tokens,
                                             size_t n_choice_tokens, const int64_t* offsets,
                                             size_t n_offsets, const prefix_options* options,
                                             int64_t user_tag, size_t* index, prefix_error* err) {
  return guard("prefix_batch_add_continuations", err, [&] {
    const auto object = object_of(batch);
    std::string name_space;
    const RequestSpec shared =
        make_spec(Task::kLogprobs, tokens, n_tokens, options, user_tag, &name_space);
    const auto lists = lists_in(choice_tokens, n_choice_tokens, offsets, n_offsets);
    std::vector<RequestSpec> specs(lists.size(), shared);
    for (size_t i = 0; i < lists.size(); ++i) {
      RequestSpec& spec = specs[i];
      spec.from = static_cast<int32_t>(n_tokens);
      // Wraps like any counter; a tag is the caller's and has no order.
      spec.user_tag = static_cast<int64_t>(static_cast<uint64_t>(user_tag) + i);
      spec.tokens.insert(spec.tokens.end(), lists[i].begin(), lists[i].end());
    }
    append(*object, specs, name_space, index);
  });
}

prefix_status prefix_batch_add_embedding(prefix_batch* batch, const prefix_token* tokens,
                                         size_t n_tokens, const prefix_options* options,
                                         int64_t user_tag, size_t* index, prefix_error* err) {
  return add("prefix_batch_add_embedding", batch, Task::kEmbed, tokens, n_tokens, options, user_tag,
             index, err, [](RequestSpec&) {});
}

prefix_status prefix_batch_add_generate(prefix_batch* batch, const prefix_token* tokens,
                                        size_t n_tokens, const prefix_options* options,
                                        int64_t user_tag, size_t* index, prefix_error* err) {
  return add("prefix_batch_add_generate", batch, Task::kGenerate, tokens, n_tokens, options,
             user_tag, index, err, [](RequestSpec&) {});
}

prefix_status prefix_batch_constrain(prefix_batch* batch, size_t index,
                                     prefix_constraint* constraint, prefix_error* err) {
  return guard("prefix_batch_constrain", err, [&] {
    const auto object = object_of(batch);
    std::shared_ptr<const prefix::Constraint> given;  // what it takes the place of goes last
    if (constraint)
      given = find<prefix::Constraint>(Kind::kConstraint, constraint, "the constraint");
    std::lock_guard lock(object->mutex);
    if (index >= object->requests.size())
      fail(Code::kOutOfRange, "request ", index, "; the batch has ", object->requests.size());
    RequestSpec& spec = object->requests[index];
    if (spec.task != Task::kGenerate)
      fail(Code::kInvalidArgument, "request ", index, " does not generate; it takes no constraint");
    spec.constraint.swap(given);
  });
}

prefix_status prefix_batch_add_warm(prefix_batch* batch, const prefix_token* tokens,
                                    size_t n_tokens, const prefix_options* options,
                                    int64_t user_tag, size_t* index, prefix_error* err) {
  return add("prefix_batch_add_warm", batch, Task::kWarm, tokens, n_tokens, options, user_tag,
             index, err, [](RequestSpec&) {});
}

prefix_status prefix_batch_plan_json(const prefix_batch* batch, char* buf, size_t cap,
                                     size_t* needed, prefix_error* err) {
  return guard("prefix_batch_plan_json", err, [&] {
    const auto object = object_of(batch);
    std::lock_guard lock(object->mutex);
    prefix::abi::text_out(prefix::plan_preview(object->requests, object->namespaces), buf, cap,
                          needed);
  });
}

}  // extern "C"
