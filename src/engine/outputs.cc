#include "engine/outputs.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace prefix {
namespace {

// Rows of full logits held at a time: 64 rows of a 150,000-token vocabulary are 38 MB.
constexpr int64_t kLogitRows = 64;

// Sorts by row and returns the distinct rows.
std::vector<int32_t> distinct_rows(std::vector<Output*>& outputs) {
  std::stable_sort(outputs.begin(), outputs.end(),
                   [](const Output* a, const Output* b) { return a->row < b->row; });
  std::vector<int32_t> rows;
  for (const Output* o : outputs)
    if (rows.empty() || rows.back() != o->row) rows.push_back(o->row);
  return rows;
}

void refuse_nan(Output& output) {
  output.status = Code::kInternal;
  output.message =
      cat("the model produced a value that is not a number at position ", output.position);
}

}  // namespace

void Heads::compute(std::vector<Output>& outputs) {
  std::vector<Output*> full, ids, embeddings;
  for (Output& o : outputs) {
    switch (o.active->spec().task) {
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
  if (!full.empty()) compute_full(full);
  if (!ids.empty()) compute_ids(ids);
  if (!embeddings.empty()) compute_embeddings(embeddings);
}

void Heads::finish_full(Output& output, const float* logits, double normaliser) {
  const RequestSpec& spec = output.active->spec();
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  if (spec.task != Task::kGenerate) {
    const Sequence& s = output.active->sequences[output.sequence];
    const int32_t target = output.active->token_at(s, output.position + 1);
    output.logprob = static_cast<float>(logits[target] - normaliser);
    if (std::isnan(output.logprob)) refuse_nan(output);
    return;
  }
  try {
    const auto index = static_cast<int64_t>(output.active->history.size() - spec.tokens.size());
    output.sampled = sample({logits, vocab}, spec.sampling, output.active->history, index);
  } catch (const Error& e) {
    output.status = e.code();
    output.message = e.message();
  }
}

void Heads::compute_full(std::vector<Output*>& outputs) {
  const std::vector<int32_t> rows = distinct_rows(outputs);
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  const size_t ld = (vocab + 31) / 32 * 32;
  model_.select(rows);
  const auto n = static_cast<int64_t>(rows.size());
  logits_.resize(ld * static_cast<size_t>(std::min(n, kLogitRows)));
  size_t next = 0;
  for (int64_t begin = 0; begin < n; begin += kLogitRows) {
    const int64_t end = std::min(n, begin + kLogitRows);
    model_.logits(begin, end, logits_.data(), static_cast<int64_t>(ld));
    std::vector<size_t> first;  // outputs of each row of the chunk: [first[i], first[i + 1])
    for (int64_t r = begin; r < end; ++r) {
      first.push_back(next);
      while (next < outputs.size() && outputs[next]->row == rows[static_cast<size_t>(r)]) ++next;
    }
    first.push_back(next);
    model_.device().parallel(end - begin, [&](int64_t r) {
      const float* logits = logits_.data() + static_cast<size_t>(r) * ld;
      bool scored = false;
      for (size_t i = first[static_cast<size_t>(r)]; i < first[static_cast<size_t>(r) + 1]; ++i)
        scored |= outputs[i]->active->spec().task != Task::kGenerate;
      const double normaliser = scored ? log_sum_exp({logits, vocab}) : 0;
      for (size_t i = first[static_cast<size_t>(r)]; i < first[static_cast<size_t>(r) + 1]; ++i)
        finish_full(*outputs[i], logits, normaliser);
    });
  }
}

// Only the panels of 32 logits that hold a wanted id are multiplied: a yes/no score costs two
// panels, not the vocabulary.
void Heads::compute_ids(std::vector<Output*>& outputs) {
  const std::vector<int32_t> rows = distinct_rows(outputs);
  model_.select(rows);
  std::map<int32_t, std::vector<std::pair<Output*, size_t>>> panels;  // panel -> (output, which id)
  size_t selected = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    while (rows[selected] != outputs[i]->row) ++selected;
    const std::vector<int32_t>& ids = outputs[i]->active->spec().logit_ids;
    outputs[i]->values.resize(ids.size());
    outputs[i]->selected = static_cast<int32_t>(selected);
    for (size_t k = 0; k < ids.size(); ++k) panels[ids[k] / 32].emplace_back(outputs[i], k);
  }
  std::vector<float> block;
  for (const auto& [panel, wanted] : panels) {
    int32_t begin = wanted.front().first->selected;
    int32_t end = begin + 1;
    for (const auto& [output, k] : wanted) {
      begin = std::min(begin, output->selected);
      end = std::max(end, output->selected + 1);
    }
    block.resize(static_cast<size_t>(end - begin) * 32);
    model_.logits_panel(begin, end, panel * 32, block.data());
    for (const auto& [output, k] : wanted) {
      const int32_t id = output->active->spec().logit_ids[k];
      const float value =
          block[static_cast<size_t>(output->selected - begin) * 32 + static_cast<size_t>(id % 32)];
      output->values[k] = value;
      if (std::isnan(value)) refuse_nan(*output);
    }
  }
}

// Truncated to the wanted dimensions first, normalised afterwards (Matryoshka embeddings).
void Heads::compute_embeddings(std::vector<Output*>& outputs) {
  const std::vector<int32_t> rows = distinct_rows(outputs);
  model_.select(rows);
  const auto hidden = static_cast<size_t>(model_.config().hidden);
  size_t selected = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    while (rows[selected] != outputs[i]->row) ++selected;
    const RequestSpec& spec = outputs[i]->active->spec();
    const size_t n = spec.dimensions > 0 ? static_cast<size_t>(spec.dimensions) : hidden;
    const float* h = model_.hidden() + selected * hidden;
    outputs[i]->values.assign(h, h + n);
    double squares = 0;
    for (float v : outputs[i]->values) squares += static_cast<double>(v) * v;
    if (std::isnan(squares)) refuse_nan(*outputs[i]);
    if (!spec.normalize || squares == 0) continue;
    const double scale = 1 / std::sqrt(squares);
    for (float& v : outputs[i]->values) v = static_cast<float>(v * scale);
  }
}

}  // namespace prefix
