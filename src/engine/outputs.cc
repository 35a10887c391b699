#include "engine/outputs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

#include "engine/result_size.h"
#include "ops/host_logits.h"

namespace prefix {
namespace {

bool by_row(const Output* a, const Output* b) { return a->row < b->row; }

// Sorts by row, returns the distinct rows and tells each output which one it is.
std::vector<int32_t> distinct_rows(std::vector<Output*>& outputs) {
  std::stable_sort(outputs.begin(), outputs.end(), by_row);
  std::vector<int32_t> rows;
  for (Output* o : outputs) {
    if (rows.empty() || rows.back() != o->row) rows.push_back(o->row);
    o->selected = static_cast<int32_t>(rows.size()) - 1;
  }
  return rows;
}

void refuse_not_finite(Output& output) {
  output.status = Code::kNotFinite;
  output.message = cat("the model's result at position ", output.position,
                       " is not finite (NaN or infinity), by its weights or by this input");
}

Sequence& sequence_of(const Output& output) { return output.request->sequences[output.sequence]; }
Sampler& sampler_of(const Output& output) {
  Sequence& s = sequence_of(output);
  return output.draft > 0 ? s.draft.samplers[static_cast<size_t>(output.draft - 1)] : *s.sampler;
}

// Of a generation, where the likeliest tokens of the row go.
std::span<ops::Candidate> top_of(const Output& output) {
  const auto k = static_cast<size_t>(output.request->spec().top_logprobs);
  return std::span(sequence_of(output).top).subspan(k * static_cast<size_t>(output.draft), k);
}

// From logits to log-probs.
void subtract(std::span<ops::Candidate> list, double log_sum) {
  for (ops::Candidate& c : list) c.logit = static_cast<float>(c.logit - log_sum);
}

}  // namespace

bool Heads::compute(ops::Step* step, std::vector<Output>& outputs, const GivenUp& given_up) {
  std::vector<Output*> full, ids, embeddings;
  pooled_.clear();
  for (Output& o : outputs) {
    if (o.row == Output::kKept) {
      pooled_.push_back(&o);
      continue;
    }
    switch (o.request->spec().task) {
      case Task::kLogits:
        ids.push_back(&o);
        break;
      case Task::kEmbed:
        embeddings.push_back(&o);
        break;
      default:
        full.push_back(&o);
    }
  }
  if (!full.empty() && !compute_full(*step, full, given_up)) return false;
  if (given_up()) return false;
  if (!ids.empty()) compute_ids(*step, ids);
  if (!embeddings.empty()) compute_embeddings(*step, embeddings);
  finish_pooled();
  return true;
}

// --- scores and tokens ---------------------------------------------------------------------------

// Processors change the row itself where the host can read it,
// and where they change more of it than can be read at once.
bool Heads::needs_row(const Output& output) const {
  if (output.request->spec().task != Task::kGenerate) return false;
  const Sampler& sampler = sampler_of(output);
  return sampler.candidates(model_.config().vocab_size) == 0 ||
         (sampler.has_processors() &&
          (model_.logits_are_on_host() || sampler.tokens().size() > model_.targets_at_once()));
}

// The single logits that ask() wants.
size_t Heads::targets_of(const Output& output) const {
  if (output.request->spec().task != Task::kGenerate) return 1;
  const Sampler& sampler = sampler_of(output);
  return sampler.has_processors() && !needs_row(output) ? sampler.tokens().size() : 0;
}

Heads::Read Heads::ask(Output& output) {
  const RunningRequest& request = *output.request;
  const RequestSpec& spec = request.spec();
  Read read{&output};
  if (spec.task != Task::kGenerate) {
    const Sequence& s = request.sequences[output.sequence];
    reads_.want_stats(output.selected, ops::kWantSum);
    read.logits = reads_.want_logit(output.selected, request.token_at(s, output.position + 1));
    if (spec.top_logprobs > 0)
      read.candidates = reads_.want_candidates(output.selected, spec.top_logprobs);
    return read;
  }
  const bool sum = spec.sampling.logprobs || spec.top_logprobs > 0;
  reads_.want_stats(output.selected, sum ? ops::kWantFirst | ops::kWantSum : ops::kWantFirst);
  const Sampler& sampler = sampler_of(output);
  const int32_t drawn_from =
      sampler.takes_largest() ? 0 : sampler.candidates(model_.config().vocab_size);
  if (const int32_t k = std::max(drawn_from, spec.top_logprobs); k > 0)
    read.candidates = reads_.want_candidates(output.selected, k);
  if (sampler.takes_largest()) return read;
  read.tokens = sampler.tokens();
  for (size_t i = 0; i < read.tokens.size(); ++i) {
    const size_t at = reads_.want_logit(output.selected, read.tokens[i]);
    if (i == 0) read.logits = at;
  }
  return read;
}

void Heads::keep_top(const Read& read) const {
  const Output& output = *read.output;
  const RequestSpec& spec = output.request->spec();
  const auto k = static_cast<size_t>(spec.top_logprobs);
  if (k == 0) return;
  const std::span<const ops::Candidate> likely = reads_.candidates(read.candidates).first(k);
  const double log_sum = ops::log_sum_exp(reads_.stats(output.selected));
  if (spec.task == Task::kGenerate) {
    const std::span<ops::Candidate> top = top_of(output);
    std::ranges::copy(likely, top.begin());
    subtract(top, log_sum);
    return;
  }
  RequestResult& result = output.request->result();
  size_t at = k * static_cast<size_t>(output.position + 1 - spec.from);
  for (const ops::Candidate& c : likely) {
    result.top_tokens[at] = c.id;
    result.top_logprobs[at++] = static_cast<float>(c.logit - log_sum);
  }
}

bool Heads::find_token(Read& read) const {
  Output& output = *read.output;
  Sampler& sampler = sampler_of(output);
  const ops::RowStats& stats = reads_.stats(output.selected);
  std::optional<ops::Candidate> found = ops::Candidate{stats.first, stats.top};
  if (!sampler.takes_largest()) {
    const auto likely = reads_.candidates(read.candidates);
    const bool complete = static_cast<int32_t>(likely.size()) == model_.config().vocab_size;
    found = sampler.sample(
        {likely, complete, read.tokens, reads_.logits(read.logits, read.tokens.size())});
    if (!found) return false;
  }
  output.sampled.token = found->id;
  if (output.request->spec().sampling.logprobs)
    output.sampled.logprob = static_cast<float>(found->logit - ops::log_sum_exp(stats));
  keep_top(read);
  return true;
}

void Heads::finish(Read& read) const {
  Output& output = *read.output;
  const ops::RowStats& stats = reads_.stats(output.selected);
  if (output.request->spec().task != Task::kGenerate) {
    output.logprob = static_cast<float>(reads_.logit(read.logits) - ops::log_sum_exp(stats));
    if (!std::isfinite(output.logprob)) return refuse_not_finite(output);
    keep_top(read);
  } else if (stats.first < 0 || !std::isfinite(stats.top)) {
    refuse_not_finite(output);
  } else {
    read.whole_row = !find_token(read);
  }
}

void Heads::sample_rows(const ops::LogitBlock& block, std::span<Output* const> outputs) {
  const auto vocab = static_cast<size_t>(block.n);
  std::vector<int32_t> selected;
  for (const Output* o : outputs) selected.push_back(o->selected);
  const std::vector<const float*> rows = model_.rows_on_host(block, selected);
  model_.device().parallel(static_cast<int64_t>(outputs.size()), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    Output& output = *outputs[i];
    const std::span<const float> row(rows[i], vocab);
    try {
      output.sampled = sampler_of(output).sample(row);
    } catch (const Error& e) {
      if (e.code() == Code::kNotFinite) return refuse_not_finite(output);
      output.status = e.code();
      output.message = e.message();
      return;
    }
    const std::span<ops::Candidate> top = top_of(output);
    if (top.empty()) return;
    ops::top_candidates(row, top);
    subtract(top, ops::log_sum_exp(row));
  });
}

// All at once, or group by group where they want more single logits than the device has room for.
bool Heads::compute_full(ops::Step& step, std::vector<Output*>& outputs, const GivenUp& given_up) {
  const size_t most = model_.targets_at_once();
  std::stable_sort(outputs.begin(), outputs.end(), by_row);
  for (auto next = outputs.begin(); next != outputs.end();) {
    std::vector<Output*> group;
    size_t targets = targets_of(**next);
    do {
      group.push_back(*next++);
      if (next != outputs.end()) targets += targets_of(**next);
    } while (next != outputs.end() && targets <= most);
    if (!compute_group(step, group, given_up)) return false;
  }
  return true;
}

bool Heads::compute_group(ops::Step& step, std::vector<Output*>& outputs, const GivenUp& given_up) {
  const std::vector<int32_t> rows = distinct_rows(outputs);
  const auto n = static_cast<int64_t>(rows.size());
  reads_.begin(step, rows.size());
  std::vector<Read> reads;
  std::vector<Output*> whole;
  for (Output* o : outputs) {
    if (needs_row(*o)) {
      whole.push_back(o);
    } else {
      reads.push_back(ask(*o));
    }
  }
  model_.select(step, reads_.arrays(rows));
  size_t next = 0;  // of `whole`
  for (int64_t begin = 0; begin < n;) {
    if (given_up()) return false;
    const int64_t end = std::min(n, begin + model_.logit_rows());
    const ops::LogitBlock block = model_.logits(begin, end);
    if (!reads.empty()) reads_.read(block);
    const size_t first = next;
    while (next < whole.size() && whole[next]->selected < end) ++next;
    if (next > first) sample_rows(block, {whole.data() + first, next - first});
    begin = end;
  }
  if (reads.empty()) return true;
  reads_.fetch();
  model_.device().parallel(static_cast<int64_t>(reads.size()),
                           [&](int64_t i) { finish(reads[static_cast<size_t>(i)]); });
  for (Read& read : reads) {
    if (!read.whole_row) continue;
    const int64_t row = read.output->selected;
    sample_rows(model_.logits(row, row + 1), {&read.output, 1});
  }
  return true;
}

// --- logits of chosen tokens ---------------------------------------------------------------------

void Heads::compute_ids(ops::Step& step, std::vector<Output*>& outputs) {
  const std::vector<int32_t> rows = distinct_rows(outputs);
  ops::HeadArrays arrays;
  arrays.rows = rows;
  model_.select(step, arrays);
  std::vector<ops::LogitAt> targets;
  for (const Output* o : outputs)
    for (const int32_t id : o->request->spec().logit_ids) targets.push_back({o->selected, id});
  std::vector<float> logits(targets.size());
  model_.logits_of(targets, logits);
  auto next = logits.begin();
  for (Output* o : outputs) {
    const auto end = next + static_cast<ptrdiff_t>(o->request->spec().logit_ids.size());
    o->values.assign(next, end);
    next = end;
    if (!std::ranges::all_of(o->values, [](float v) { return std::isfinite(v); }))
      refuse_not_finite(*o);
  }
}

// --- embeddings ----------------------------------------------------------------------------------

// What is to be made of the pooled hidden states of a text.
void Heads::pool(Output& output, std::span<const float> hidden) {
  output.values.assign(hidden.begin(), hidden.end());
  pooled_.push_back(&output);
  const RunningRequest& request = *output.request;
  if (request.text_root == kNoNode) return;
  TextRows& rows = output.request->sequences[output.sequence].rows;
  rows.positions.push_back(request.spec().pooling == Pooling::kMean ? TextRows::kMean
                                                                    : output.position);
  rows.rows.insert(rows.rows.end(), hidden.begin(), hidden.end());
}

// Truncated to the wanted dimensions first, normalised afterwards (Matryoshka embeddings).
void Heads::finish_vector(Output& output) const {
  const RequestSpec& spec = output.request->spec();
  if (spec.head)
    output.values = model_.label_head().logits(output.values);
  else
    output.values.resize(embedding_width(spec, model_.config()));
  double squares = 0;
  for (float v : output.values) squares += static_cast<double>(v) * v;
  if (!std::isfinite(squares)) refuse_not_finite(output);
  if (!spec.normalize || spec.head || squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& v : output.values) v = static_cast<float>(v * scale);
}

// `outputs`: those of a sequence side by side. Sequences are added at the same time, and what takes
// memory comes before that.
void Heads::add_means(std::span<Output* const> outputs, const float* rows) {
  const auto hidden = static_cast<size_t>(model_.config().hidden);
  const auto row = [&](const Output& o) {
    return std::span(rows + static_cast<size_t>(o.selected) * hidden, hidden);
  };
  const auto sum = [](const Output& o) -> RowSum& { return o.request->sequences[o.sequence].mean; };
  std::vector<std::span<Output* const>> sequences;
  for (size_t begin = 0, i = 0; i < outputs.size(); ++i) {
    if (i + 1 < outputs.size() && &sum(*outputs[i]) == &sum(*outputs[i + 1])) continue;
    sequences.push_back(outputs.subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
  for (const auto sequence : sequences) {
    RowSum& of = sum(*sequence.front());
    of.begin(hidden);
    int32_t next = of.next();
    for (const Output* o : sequence) {
      if (o->position == next)
        next = of.next_after(next);
      else
        of.keep(o->position, row(*o));
    }
  }
  model_.device().parallel(static_cast<int64_t>(sequences.size()), [&](int64_t i) {
    for (const Output* o : sequences[static_cast<size_t>(i)])
      if (o->position == sum(*o).next()) sum(*o).add(row(*o));
  });
  for (const auto sequence : sequences) {
    Output& last = *sequence.back();
    if (sum(last).next() == last.request->sequences[last.sequence].length)
      pool(last, sum(last).mean());
  }
}

void Heads::compute_embeddings(ops::Step& step, std::vector<Output*>& outputs) {
  std::vector<Output*> means;  // each sequence's in the order of its positions
  for (Output* o : outputs)
    if (o->request->spec().pooling == Pooling::kMean) means.push_back(o);
  const std::vector<int32_t> rows = distinct_rows(outputs);
  ops::HeadArrays arrays;
  arrays.rows = rows;
  model_.select(step, arrays);
  const auto hidden = static_cast<size_t>(model_.config().hidden);
  const float* const all = model_.hidden();
  for (Output* o : outputs)
    if (o->request->spec().pooling != Pooling::kMean)
      pool(*o, {all + static_cast<size_t>(o->selected) * hidden, hidden});
  add_means(means, all);
}

// From final hidden states to what is asked for.
void Heads::finish_pooled() {
  std::vector<std::vector<float>*> dense;
  for (Output* o : pooled_)
    if (o->request->spec().goes_dense(model_.config().dense_of_tokens)) dense.push_back(&o->values);
  if (!dense.empty() && !model_.dense().empty())
    model_.dense().apply(dense,
                         [this](int64_t n, const auto& f) { model_.device().parallel(n, f); });
  for (Output* o : pooled_) finish_vector(*o);
}

}  // namespace prefix
