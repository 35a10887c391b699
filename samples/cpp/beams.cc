// The likeliest of many items, without scoring them all: beams MODEL PROMPT WIDTH CATALOGUE
//
// The items of the catalogue, one a line, and the prompt are token ids, as 1,5,9. A beam is the
// beginning of an item; at each level every beam is asked how likely each token is by which an item
// goes on, and the WIDTH likeliest beginnings stay: generative retrieval, as recommenders do it
// ("xGR", arXiv 2512.11529).
//
//   prompt ─┬─ 7 ─┬─ 1          level 1: one row, the tokens 7, 8 and 9
//           │     └─ 4          level 2: a row for each beam that is left, ...
//           ├─ 8 ─── 1
//           └─ 9 ─── 3          not gone on with, if 7 and 8 are likelier
//
// Each level is one batch of choices of one token. What a beam begins with is found in the cache,
// so that a level computes one row a beam, and no keys and values are copied from beam to beam but
// the page in which they part. A width of as many beams as there are items gives the order of
// scoring them all.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <prefix.hpp>
#include <string>

#include "token_list.h"

namespace {

// All items that begin alike are below one node.
struct Trie {
  std::map<prefix_token, std::unique_ptr<Trie>> next;
  bool item = false;  // one ends here
};

struct Beam {
  std::vector<prefix_token> tokens;  // behind the prompt
  double logprob = 0;
  const Trie* node = nullptr;
};

bool likelier(const Beam& a, const Beam& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.tokens < b.tokens;
}

// The first of them, in their order.
void keep(std::vector<Beam>& beams, size_t width) {
  std::sort(beams.begin(), beams.end(), likelier);
  if (beams.size() > width) beams.resize(width);
}

Trie read_catalogue(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read " + std::string(path));
  Trie root;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    Trie* at = &root;
    for (const prefix_token token : token_list(line)) {
      std::unique_ptr<Trie>& below = at->next[token];
      if (!below) below = std::make_unique<Trie>();
      at = below.get();
    }
    at->item = true;
  }
  if (root.next.empty()) throw std::invalid_argument(std::string(path) + " has no items");
  return root;
}

// The beams of the next level; items that end go to `found`.
std::vector<Beam> grow(const prefix::Engine& engine, const std::vector<prefix_token>& prompt,
                       const std::vector<Beam>& beams, std::vector<Beam>& found) {
  prefix::Batch batch(engine);
  for (const Beam& beam : beams) {
    std::vector<prefix_token> path = prompt;
    path.insert(path.end(), beam.tokens.begin(), beam.tokens.end());
    std::vector<std::vector<prefix_token>> choices;
    for (const auto& [token, below] : beam.node->next) choices.push_back({token});
    batch.add_choices(path, choices);
  }
  const prefix::Job job = engine.run(batch);
  std::vector<Beam> grown;
  for (size_t i = 0; i < beams.size(); ++i) {
    const std::vector<float> logprobs = job.values(i);  // throws what failed
    auto logprob = logprobs.begin();
    for (const auto& [token, below] : beams[i].node->next) {
      Beam beam{beams[i].tokens, beams[i].logprob + *logprob++, below.get()};
      beam.tokens.push_back(token);
      if (below->item) found.push_back(beam);
      if (!below->next.empty()) grown.push_back(std::move(beam));
    }
  }
  return grown;
}

}  // namespace

int main(int argc, char** argv) try {
  constexpr const char* kUsage = "usage: beams MODEL PROMPT WIDTH CATALOGUE\n";
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
  if (argc != 5) return std::fprintf(stderr, "beams: %d arguments; %s", argc - 1, kUsage), 2;
  const std::vector<prefix_token> prompt = token_list(argv[2]);
  size_t width = 0;
  const char* const end = argv[3] + std::strlen(argv[3]);
  if (std::from_chars(argv[3], end, width).ptr != end || width == 0)
    throw std::invalid_argument("the width is a number from 1, not " + std::string(argv[3]));
  const Trie items = read_catalogue(argv[4]);

  const prefix::Engine engine(argv[1]);
  std::vector<Beam> found;
  for (std::vector<Beam> beams = {{{}, 0, &items}}; !beams.empty(); keep(beams, width)) {
    beams = grow(engine, prompt, beams, found);
    keep(found, width);
    // What is longer is no likelier: it ends where it would not come among those that are found.
    if (found.size() == width)
      std::erase_if(beams, [&](const Beam& beam) { return !likelier(beam, found.back()); });
  }
  for (const Beam& item : found) {
    std::printf("%12.4f  ", item.logprob);
    for (size_t i = 0; i < item.tokens.size(); ++i)
      std::printf(i == 0 ? "%d" : ",%d", item.tokens[i]);
    std::printf("\n");
  }
  return 0;
} catch (const prefix::Error& e) {
  std::fprintf(stderr, "beams: %s (%s)\n", e.what(), e.name());
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "beams: %s\n", e.what());
  return 2;
}
