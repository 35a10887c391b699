// Time to plan a batch, one thread: match and extend the tree by every sequence, then lay the step
// out (rows, positions, slots, attention tiles and runs).
//
// Shapes follow the published benchmark of the RadixMLP reference: shared tokens j % 1000 + 1, own
// tokens 1,000,000 + sequence * 10,000 + k.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "plan/step.h"
#include "tree/tree.h"

namespace {

using prefix::NodeId;

struct Shape {
  const char* name;
  int32_t sequences;
  int32_t shared;
  int32_t own;
};

std::vector<std::vector<int32_t>> make_batch(const Shape& shape) {
  std::vector<std::vector<int32_t>> batch(static_cast<size_t>(shape.sequences));
  for (int32_t s = 0; s < shape.sequences; ++s) {
    auto& tokens = batch[static_cast<size_t>(s)];
    for (int32_t j = 0; j < shape.shared; ++j) tokens.push_back(j % 1000 + 1);
    for (int32_t k = 0; k < shape.own; ++k) tokens.push_back(1000000 + s * 10000 + k);
  }
  return batch;
}

// The plan's arrays are kept from step to step, as in the engine; the tree starts empty.
double plan_once(const std::vector<std::vector<int32_t>>& batch, prefix::StepPlan& plan,
                 int64_t* rows) {
  prefix::PagePool pool(1 << 20);
  prefix::Tree tree(pool);
  const NodeId root = tree.add_root();
  prefix::StepBuilder builder(tree, {16, 8, 2});
  std::vector<NodeId> ends(batch.size());
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < batch.size(); ++i)
    ends[i] = tree.attach(tree.match(root, batch[i]), batch[i], {.job = 1});
  builder.begin();
  for (size_t i = 0; i < batch.size(); ++i)
    builder.take(ends[i], static_cast<int32_t>(batch[i].size()), INT32_MAX);
  builder.build(plan);
  const auto end = std::chrono::steady_clock::now();
  *rows = plan.rows();
  return std::chrono::duration<double, std::nano>(end - start).count();
}

void measure() {
  const Shape shapes[] = {
      {"32x512 0%", 32, 0, 512},        {"32x512 25%", 32, 128, 384},
      {"32x512 50%", 32, 256, 256},     {"32x512 75%", 32, 384, 128},
      {"32x512 100%", 32, 512, 0},      {"32x2048+256", 32, 2048, 256},
      {"2048x512 25%", 2048, 128, 384}, {"32768 leaves under one node", 32768, 16, 16},
  };
  for (const Shape& shape : shapes) {
    const auto batch = make_batch(shape);
    const int64_t given = int64_t{shape.sequences} * (shape.shared + shape.own);
    std::vector<double> times;
    int64_t rows = 0;
    prefix::StepPlan plan;
    for (int i = 0; i < (given > 1000000 ? 7 : 51); ++i)
      times.push_back(plan_once(batch, plan, &rows));
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    prefix::bench::Line line("plan");
    line.field("shape", shape.name).field("tokens", given).field("rows", rows);
    line.field("ns_per_token", median / static_cast<double>(given));
    line.field("best_ns_per_token", times[0] / static_cast<double>(given));
    line.field("us", median / 1000).print();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const prefix::bench::Program program(
      "plan_bench",
      "planning a batch, one thread, no model: matching and extending the tree by every sequence and\n"
      "laying the step out, nanoseconds a token; medians of 7 to 51 runs",
      "");
  return program.run(argc, argv, measure);
}
