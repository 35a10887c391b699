// Random operations on prefix::Tree in the engine's own mode, against the naive model of
// tree_oracle.h: 10 million of them, all against the complete model. After every operation the
// cheap facts are compared (tokens, held tokens, pages, tokens of each space, ticks, evictions, the
// next victim) and one random match; every 50th time every field of every node and Tree::check().
//
// The invariants of a radix cache, and who asserts them:
//   I1  evictable + held == all tokens        check(): sums over nodes; the model: held tokens
//   I2  held == own locks + held of children  check(), and the model from the list of sequences
//   I3  queued == computed leaf, not held     check(), and the model for each node; victim()
//   I4  a child is found by its first token   check(): the table; the model: every match
//   I5  an edge's tokens and pages fit        check_pages(); the model: tokens from the paths
//   I6  free + used pages == all of them      check(): owners of each page; the model: by shape
//   I7  a sequence keeps its path             the model: each sequence is a prefix of its edge
#include "tree/tree_oracle.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "support/cases.h"

namespace prefix {
namespace {

using testing_support::CheckedTree;
using testing_support::Difference;
using testing_support::Edge;
using testing_support::Events;
using testing_support::Path;
using testing_support::quick;
using testing_support::Sequence;

constexpr int kOperations = 10'400'000;
constexpr int kRunOperations = 5000;  // with one tree
constexpr size_t kMaxTokens = 110;

int operations() { return quick() ? kOperations / 100 : kOperations; }

struct Configuration {
  const char* name;
  int32_t pages;
  uint32_t vocabulary;
  size_t roots;
  size_t sequences;  // at once, at most
  bool limits;       // quotas and floors
  bool expiry;
  uint32_t tail;  // most tokens behind a known prefix
};

constexpr Configuration kConfigurations[] = {
    {"small", 20, 2, 1, 6, false, false, 50}, {"plain", 40, 2, 2, 10, false, false, 90},
    {"expiry", 30, 3, 2, 8, false, true, 70}, {"limits", 40, 2, 3, 8, true, false, 70},
    {"short", 60, 3, 3, 12, true, true, 12},  {"everything", 50, 2, 4, 10, true, true, 90},
};

// The last operations in words, kept as numbers until somebody wants to read them.
class Diary {
 public:
  template <typename A, typename B = int, typename C = int>
  void add(const char* what, A a, B b = 0, C c = 0, const Path& path = {}) {
    Entry& e = entries_[count_++ % kEntries];
    e.what = what;
    e.a = static_cast<int64_t>(a);
    e.b = static_cast<int64_t>(b);
    e.c = static_cast<int64_t>(c);
    e.path = path;
  }
  std::string words() const {
    std::ostringstream out;
    for (size_t i = count_ - std::min(count_, kEntries); i < count_; ++i) {
      const Entry& e = entries_[i % kEntries];
      out << "  " << i << ": " << e.what << ' ' << e.a << ' ' << e.b << ' ' << e.c << " [";
      for (const char token : e.path) out << static_cast<char>(token + '0');
      out << "]\n";
    }
    return out.str();
  }

 private:
  static constexpr size_t kEntries = 40;
  struct Entry {
    const char* what = "";
    int64_t a = 0, b = 0, c = 0;
    Path path;
  };
  Entry entries_[kEntries];
  size_t count_ = 0;
};

class RandomRun {
 public:
  RandomRun(const Configuration& configuration, Policy policy, uint64_t seed)
      : with_(configuration),
        random_(seed),
        tree_(configuration.pages, policy, configuration.roots) {}

  // Returns what went wrong, with the operations before it.
  std::string run(int count) {
    try {
      for (int done = 0; done < count;) {
        if (!step()) continue;
        tree_.check_facts();
        const size_t root = below(with_.roots);
        tree_.match(root, random_path(root));
        if (++done % 50 == 0) tree_.check_everything();
      }
      release_everything();
    } catch (const std::exception& e) {
      return cat(e.what(), "\n", diary_.words());
    }
    return {};
  }
  const Events& events() const { return tree_.events(); }

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }

  // A prefix of a known path, cut anywhere but often at a page's border, and a random tail.
  Path random_path(size_t root) {
    Path path;
    const auto& known = tree_.edges_of(root);
    if (!known.empty() && !chance(8)) {
      path = known[below(known.size())]->path;
      size_t keep = path.size();
      if (chance(2)) keep = below(path.size() + 1);
      if (chance(4)) keep = std::min<size_t>(path.size(), 31 + below(3) + 32 * below(3));
      path.resize(keep);
      if (!path.empty() && chance(4)) return path;
    }
    const size_t tail = 1 + below(chance(2) ? 4 : with_.tail);
    const size_t length = std::min(kMaxTokens, path.size() + tail);
    for (uint64_t bits = random_(); path.size() < length; bits = bits >> 2 | bits << 62)
      path.push_back(static_cast<char>((bits & 255) % with_.vocabulary));
    if (path.empty()) path.push_back(0);
    return path;
  }

  AttachOptions random_use() {
    AttachOptions use{.job = below(100), .priority = static_cast<int16_t>(below(4))};
    use.count_as_use = !chance(4);
    if (chance(6)) use.reserve_tokens = static_cast<int32_t>(below(30));
    if (with_.expiry && !chance(3)) use.expires_ms = now_ms_ + 1 + below(400);
    return use;
  }

  void attach() {
    const size_t root = below(with_.roots);
    const Path tokens = random_path(root);
    const AttachOptions use = random_use();
    diary_.add("attach (root, priority, expires)", root, use.priority, use.expires_ms, tokens);
    if (!tree_.attach(root, tokens, use) || use.reserve_tokens == 0) return;
    // As the scheduler promises pages to a request that generates.
    const int32_t pages = (use.reserve_tokens + kPageTokens - 1) / kPageTokens + 2;
    if (tree_.make_room(pages)) tree_.reserve(tree_.live().back(), pages);
  }

  void compute(Sequence& s) {
    const auto end = static_cast<int32_t>(s.edge->path.size());
    const int32_t upto = chance(3) ? 1 + static_cast<int32_t>(below(s.edge->path.size())) : end;
    diary_.add("compute (upto)", upto, 0, 0, s.edge->path);
    tree_.compute(s, upto);
  }

  void score(const Sequence& s) {
    const auto end = static_cast<int32_t>(1 + below(s.tokens.size()));
    const auto from = static_cast<int32_t>(below(static_cast<size_t>(end)));
    diary_.add("score (from, end)", from, end, 0, s.tokens);
    tree_.score(s, from, end);
  }

  bool advance(Sequence& s) {
    if (s.tokens.size() == kMaxTokens) return false;
    if (!tree_.can_advance(s) && !tree_.make_room(1)) return false;
    const auto token = static_cast<char>(below(with_.vocabulary));
    diary_.add("advance (token)", token, 0, 0, s.tokens);
    tree_.advance(s, token);
    return true;
  }

  bool retreat(Sequence& s) {
    if (!tree_.can_retreat(s)) return false;
    const int32_t least = s.edge->start + std::max(1, s.edge->computed);
    const auto length =
        static_cast<int32_t>(least + below(s.tokens.size() - static_cast<size_t>(least)));
    diary_.add("retreat (length)", length, 0, 0, s.tokens);
    tree_.retreat(s, length);
    return true;
  }

  void unlock() {
    const size_t i = below(tree_.live().size());
    const bool keep = !chance(8);
    diary_.add("unlock (keep)", keep, 0, 0, tree_.live()[i].tokens);
    tree_.unlock(i, keep);
  }

  void prolong(const Sequence& s) {
    const int64_t until = chance(3) ? 0 : now_ms_ + 1 + below(400);
    diary_.add("prolong (expires)", until, 0, 0, s.tokens);
    tree_.prolong(s, until);
  }

  void end_at() {
    Edge* e = tree_.edges()[below(tree_.edges().size())];
    const auto length = static_cast<int32_t>(1 + below(e->path.size()));
    diary_.add("end_at (length, root)", length, e->root, 0, e->path);
    tree_.end_at(e, length);
  }

  void make_room() {
    const uint32_t pages = below(8);
    diary_.add("make_room", pages);
    tree_.make_room(static_cast<int32_t>(pages));
  }

  void trim() {
    const auto used = static_cast<size_t>(tree_.pages_used());
    const auto pages = static_cast<int32_t>(used - below(std::min<size_t>(used, 6) + 1));
    diary_.add("trim", pages);
    tree_.trim(pages);
  }

  void drop(size_t root) {
    const auto& known = tree_.edges_of(root);
    Edge* top = known.empty() || chance(10) ? nullptr : known[below(known.size())];
    diary_.add("drop (root)", root, 0, 0, top ? top->path : Path());
    tree_.drop(root, top);
  }

  void drop_after(size_t root) {
    const Path path = random_path(root);
    diary_.add("drop_after (root)", root, 0, 0, path);
    tree_.drop_after(root, path);
  }

  void set_limits() {
    const uint32_t space = below(CheckedTree::kSpaces);
    const size_t all = static_cast<size_t>(with_.pages) * kPageTokens;
    const uint32_t floor = chance(2) ? 0 : below(all / 4);
    const uint32_t quota = chance(3) ? 0 : floor + below(all / 2);
    diary_.add("set_limits (space, floor, quota)", space, floor, quota);
    tree_.set_limits(static_cast<int32_t>(space), floor, quota);
  }

  void expire() {
    now_ms_ += below(100);
    diary_.add("expire", now_ms_);
    tree_.expire(now_ms_);
  }

  bool replace_root(size_t root) {
    const uint32_t space = below(CheckedTree::kSpaces);
    diary_.add("replace_root (root, space)", root, space);
    return tree_.replace_root(root, static_cast<int32_t>(space));
  }

  // One operation; false if there was nothing to do.
  bool step() {
    std::vector<Sequence>& live = tree_.live();
    const size_t root = below(with_.roots);
    const uint32_t what = below(1000);
    if (what < 4) return replace_root(root);
    if (what < 8) return with_.limits && (set_limits(), true);
    if (what < 16) return with_.expiry && (expire(), true);
    if (what < 26) return !tree_.edges().empty() && (end_at(), true);
    if (what < 34) return make_room(), true;
    if (what < 40) return trim(), true;
    if (what < 43) return drop(root), true;
    if (what < 46) return drop_after(root), true;
    if (what < 60 && with_.expiry && !live.empty()) return prolong(live[below(live.size())]), true;
    if (live.empty() || (what < 400 && live.size() < with_.sequences)) return attach(), true;
    if (what < 560) return unlock(), true;
    Sequence& s = live[below(live.size())];
    if (what < 760) return compute(s), true;
    if (what < 800) return score(s), true;
    if (what < 840) return retreat(s);
    return advance(s);
  }

  void release_everything() {
    while (!tree_.live().empty()) unlock();
    tree_.check_facts();
    for (size_t root = 0; root < with_.roots; ++root) tree_.drop(root, nullptr);
    tree_.check_everything();
    testing_support::same("pages after everything was dropped", tree_.pages_used(), 0);
  }

  const Configuration& with_;
  std::mt19937_64 random_;
  CheckedTree tree_;
  Diary diary_;
  int64_t now_ms_ = 1000;
};

class TreeOracle : public testing::TestWithParam<Policy> {};

TEST_P(TreeOracle, AgreesWithTheNaiveModelAfterEveryOperation) {
  const int each = operations() / 8 / static_cast<int>(std::size(kConfigurations));
  int runs = 0;
  Events all;
  for (const Configuration& configuration : kConfigurations) {
    for (int done = 0; done < each; done += kRunOperations, ++runs) {
      const uint64_t seed = static_cast<uint64_t>(runs) * 8 + static_cast<uint64_t>(GetParam());
      RandomRun run(configuration, GetParam(), seed);
      const std::string wrong = run.run(std::min(kRunOperations, each - done));
      if (!wrong.empty())
        FAIL() << policy_name(GetParam()) << ", " << configuration.name << ", seed " << seed << ": "
               << wrong;
      all += run.events();
    }
  }
  for (size_t i = 0; i < std::size(all.counts); ++i) {
    RecordProperty(Events::kNames[i], std::to_string(all.counts[i]));
    if (quick()) continue;
    EXPECT_GT(all.counts[i], 100) << "the operations hardly ever caused: " << Events::kNames[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, TreeOracle,
                         testing::Values(Policy::kLru, Policy::kLfu, Policy::kFifo, Policy::kMru,
                                         Policy::kFilo, Policy::kSlru, Policy::kPriority,
                                         Policy::kGdsf),
                         [](const auto& p) { return std::string(policy_name(p.param)); });

}  // namespace
}  // namespace prefix
