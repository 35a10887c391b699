// A conversation that never computes a token twice: turns MODEL MESSAGE...
//
// Each turn sends all that was said before and one message more. What was run for the turns before
// is found in the cache up to its last token, also by a model with recurrent layers: after every
// answer their state is kept. Token ids only, as 1,5,9, so that the history has the very tokens that
// were generated; the interface is prefix.hpp.
#include <cstdio>
#include <cstring>
#include <prefix.hpp>

#include "token_list.h"

static constexpr const char* kHelp =
    "usage: turns MODEL MESSAGE... [--max-tokens N] [--cold] [--json]\n"
    "\n"
    "Answers each MESSAGE (token ids as 1,5,9) after all before it, and prints how many tokens of\n"
    "the conversation were found in the cache and how many were computed. --cold keeps nothing in\n"
    "the cache: the answers are the same.\n"
    "\n"
    "  prefix-random-checkpoint tiny-granite-h model\n"
    "  turns model 1,15,27,9 4,8 33,7,21\n";

struct Arguments {
  std::string model;
  std::vector<std::vector<prefix_token>> messages;
  std::string max_tokens = "16";
  bool cold = false, json = false;
};

static Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--cold") {
      arguments.cold = true;
    } else if (argument == "--json") {
      arguments.json = true;
    } else if (argument == "--max-tokens" && i + 1 < argc) {
      arguments.max_tokens = argv[++i];
    } else if (argument.starts_with("--")) {
      throw std::invalid_argument(argument + " is unknown or lacks a value; try --help");
    } else if (arguments.model.empty()) {
      arguments.model = argument;
    } else {
      arguments.messages.push_back(token_list(argument));
    }
  }
  if (arguments.messages.empty())
    throw std::invalid_argument("MODEL and a MESSAGE are needed; try --help");
  return arguments;
}

static void print(size_t turn, const prefix_result_info& info,
                  const std::vector<prefix_token>& answer, bool json) {
  if (!json) {
    if (turn == 1)
      std::printf("%6s%10s%10s%10s%11s\n", "turn", "prompt", "cached", "computed", "generated");
    std::printf("%6zu%10lld%10lld%10lld%11lld\n", turn, (long long)info.prompt_tokens,
                (long long)info.cached_tokens, (long long)info.computed_tokens,
                (long long)info.generated_tokens);
    return;
  }
  std::printf("{\"prompt\":%lld,\"cached\":%lld,\"computed\":%lld,\"answer\":[",
              (long long)info.prompt_tokens, (long long)info.cached_tokens,
              (long long)info.computed_tokens);
  for (size_t i = 0; i < answer.size(); ++i) std::printf("%s%d", i ? "," : "", answer[i]);
  std::printf("]}\n");
}

int main(int argc, char** argv) try {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kHelp, stdout), 0;
  const Arguments arguments = parse(argc, argv);
  const prefix::Options engine_options = prefix::Options().set("cache", !arguments.cold);
  const prefix::Options options = prefix::Options().set("max_tokens", arguments.max_tokens);
  const prefix::Engine engine(arguments.model, &engine_options);

  std::vector<prefix_token> history;
  for (size_t turn = 0; turn < arguments.messages.size(); ++turn) {
    const std::vector<prefix_token>& message = arguments.messages[turn];
    history.insert(history.end(), message.begin(), message.end());
    prefix::Batch batch(engine);
    batch.add_generate(history, {.options = &options});
    const prefix::Job job = engine.run(batch);
    const std::vector<prefix_token> answer = job.tokens(0);
    print(turn + 1, job.info(0), answer, arguments.json);
    history.insert(history.end(), answer.begin(), answer.end());
  }
  const prefix_engine_stats stats = engine.stats();
  if (!arguments.json && stats.states > 0)
    std::printf(
        "\nin the cache: %lld tokens, and the state of the recurrent layers after %lld of them\n",
        (long long)stats.tree_tokens, (long long)stats.states);
  return 0;
} catch (const prefix::Error& e) {
  std::fprintf(stderr, "turns: %s (%s)\n", e.what(), e.name());
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "turns: %s\n", e.what());
  return 2;
}
