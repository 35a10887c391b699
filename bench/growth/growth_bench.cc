// How what an engine does beside the model grows with what it holds: each cost at n, 2n, 4n and 8n, one
// thread, no model or a tiny one that computes nothing meanwhile.
//
//   growth   the time of twice the size over that of the size: 2 is linear, 4 quadratic
//
// Of a single call on something of size n ("call") 1 means that the size does not matter.
#include <algorithm>
#include <string>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "cost.h"

namespace {

using prefix::bench::Cost;

constexpr int kSizes = 4;

void measure(const Cost& cost, int divide, int repeats) {
  std::vector<int> sizes;
  std::vector<double> us(kSizes, 1e300);
  for (int i = 0; i < kSizes; ++i) sizes.push_back(std::max(1, cost.n / divide) << i);
  for (int r = 0; r < repeats; ++r)
    for (size_t i = 0; i < us.size(); ++i) us[i] = std::min(us[i], cost.run(sizes[i]) * 1e6);
  prefix::bench::Line line("growth");
  line.field("cost", cost.name).field("of", cost.each ? "all" : "call").field("n", cost.size);
  line.list("sizes", sizes);
  for (size_t i = 0; i < us.size(); ++i)
    line.field(prefix::cat("us_", std::size_t{1} << i, "n"), us[i]);
  line.field("growth", us[kSizes - 1] / us[kSizes - 2]).print();
}

}  // namespace

int main(int argc, char** argv) {
  int divide = 1, repeats = 3;
  std::string only;
  prefix::bench::Program program(
      "growth_bench",
      "how what an engine does beside the model grows with what it holds: microseconds of each cost\n"
      "at n, 2n, 4n and 8n, processor time of one thread, minima; growth is that of the last doubling",
      "--divide 100 --repeats 1");
  program.option("--only", "TEXT", "costs whose names have it", only);
  program.option("--divide", "N", "sizes by it", divide, 1, 1000000);
  program.option("--repeats", "N", "of each", repeats, 1, 1000);
  return program.run(argc, argv, [&] {
    std::vector<Cost> costs;
    prefix::bench::add_tree_costs(costs);
    prefix::bench::add_cache_costs(costs);
    prefix::bench::add_engine_costs(costs);
    for (const Cost& cost : costs)
      if (cost.name.find(only) != std::string::npos) measure(cost, divide, repeats);
  });
}
