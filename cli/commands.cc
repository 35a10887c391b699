#include "commands.h"

#include "engine_args.h"

namespace prefix_cli {
namespace {

constexpr Flag kModelFlag{"--model", "PATH", "a Hugging Face directory or a .gguf file"};
constexpr Flag kProgressFlag{"--progress", "auto|on|off",
                             "progress on standard error; auto = when it is a terminal"};

constexpr Flag kRunFlags[] = {
    kModelFlag,
    {"--in", "FILE", "requests, JSON objects as a stream; default: standard input"},
    {"--out", "FILE", "results, one JSON object per line; default: standard output"},
    {"--summary", "FILE", "writes counts, times and memory as one JSON object"},
    {"--tree", "FILE", "writes what the cache holds at the end, for prefix tree --from"},
    kThreadsFlag,
    kDeviceFlag,
    kDtypeFlag,
    kIsaFlag,
    {"--sharing", "on|off", "off computes every request on its own, to compare"},
    kCacheFlag,
    kRowsFlag,
    {"--batch", "N", "runs after every N requests; default: all in one batch"},
    {"--adapter", "NAME=DIR", "a LoRA adapter that requests may name; may be repeated", true},
    kOptionFlag,
    kProgressFlag,
};

constexpr Flag kInfoFlags[] = {
    {"--machine", "", "what this machine offers: instruction sets, threads, GPU"},
    {"--options", "", "every option there is, of engines and of requests"},
    {"--json", "", "the same as one JSON object"},
    {"--context", "N",
     "tokens of a sequence for the memory table; default 4096, or all positions\n"
     "of a model with fewer"},
    {"--batch", "N", "sequences at a time for the memory table; default 1"},
    kThreadsFlag,
    kDeviceFlag,
    kDtypeFlag,
    kIsaFlag,
    kCacheFlag,
    kRowsFlag,
    kOptionFlag,
};

constexpr Flag kTreeFlags[] = {
    {"--in", "FILE", "requests as for prefix run; default: standard input"},
    {"--out", "FILE",
     "the picture; the end of its name decides: .svg, .dot, else text;\n"
     "default: text on standard output"},
    {"--format", "svg|dot|text", "instead of the end of the name"},
    {"--model", "PATH", "tokenizer for text requests, and to show text instead of ids"},
    {"--from", "FILE",
     "the cache of an engine instead of a batch: what prefix_cache_tree_json\n"
     "gave, or prefix run --tree wrote"},
    {"--bars", "N", "most bars below each other; smaller branches are folded; default 40"},
};

constexpr Flag kCacheSimFlags[] = {
    {"--ops", "FILE", "operations, JSON objects as a stream; - = standard input"},
    {"--trace", "FILE", "a trace of requests, JSON objects in a regular file"},
    {"--policy", "NAME",
     "what goes first when the cache is full: lru, lfu, fifo, mru, filo,\n"
     "slru, priority, gdsf or gds; default lru. With --trace also a list or all.\n"
     "--hybrid: auto, lru, leaf-lru, marconi (tuned), marconi=ALPHA, gds, gdsf,\n"
     "block; default auto"},
    {"--capacity", "SIZE",
     "--ops: tokens; --trace: bytes, e.g. 512M or 4G, or a list of them;\n"
     "default: no limit"},
    {"--page", "N", "tokens that are matched as one, 1 to 65536; default 1"},
    {"--bigram", "", "keys are pairs of neighbouring tokens"},
    {"--compat", "sglang|marconi",
     "behave as SGLang's radix cache, with --hybrid as the experiments of\n"
     "Marconi, where ours differs on purpose"},
    {"--bytes-per-token", "N", "keys and values of one token"},
    {"--hybrid", "", "the cache of a model with recurrent layers, which holds states as well"},
    {"--model-cost", "NAME|KEY=N,...",
     "--hybrid: default7b, qwen3.5-4b, granite-h-1b, or recurrent_layers,\n"
     "attention_layers, mlp_layers, width, state_width, state_bytes, kv_bytes,\n"
     "and FLOPs of a token in a layer: recurrent_flops, attention_flops,\n"
     "attention_flops_squared, mlp_flops; default default7b"},
    {"--bytes-per-checkpoint", "N", "--hybrid: the states of all layers at one position"},
    {"--admission", "LIST",
     "--hybrid: where states are taken, of branch, end, prompt and placed;\n"
     "default branch,end"},
    {"--max-placed", "N", "--hybrid: states that a request has placed; default 1"},
    {"--max-states", "N", "--hybrid: states that a path keeps; default: no limit"},
    {"--pitfalls", "LIST",
     "--compat marconi: what the published artifact does otherwise than its\n"
     "paper, of 3, 4, 5, 9 (docs/cache-policies.md); default 9"},
    {"--model", "PATH", "takes the bytes and operations of a token from a model"},
    kDtypeFlag,
    {"--per-request", "FILE", "writes what every request reused, one JSON object per line"},
    {"--table", "", "a table instead of one JSON object per run"},
    kProgressFlag,
};

constexpr Flag kBenchFlags[] = {
    kModelFlag,
    {"--shape", "B,P,S",
     "B requests of P shared and S own tokens; may be repeated;\n"
     "default 16,512,32",
     true},
    {"--decode", "Q,C,N,T",
     "Q questions of N tokens about one context of C tokens, T tokens\n"
     "generated for each; may be repeated",
     true},
    {"--pairs", "N", "pairs of runs, shared and unshared; default 3"},
    {"--seed", "N", "seed of the random token ids; default 1"},
    {"--json", "", "one JSON object per shape instead of the table"},
    kThreadsFlag,
    kDeviceFlag,
    kDtypeFlag,
    kIsaFlag,
    kCacheFlag,
    kRowsFlag,
    kOptionFlag,
    kProgressFlag,
};

constexpr Flag kKldFlags[] = {
    kModelFlag,
    {"--test-model", "PATH", "another model with the same token ids; default: the same one"},
    {"--text", "FILE", "the text that is predicted; - = standard input"},
    {"--base", "KEY=VALUE", "an option of the library of the one setting; may be repeated", true},
    {"--test", "KEY=VALUE", "an option of the other; may be repeated", true},
    {"--context", "N", "tokens of a sequence, each of which starts anew; default 512"},
    {"--tokens", "N", "tokens of the text that are taken; default: all"},
    {"--json", "", "one JSON object instead of the table"},
    kThreadsFlag,
    kDeviceFlag,
    kDtypeFlag,
    kIsaFlag,
    kCacheFlag,
    kRowsFlag,
    kOptionFlag,
    kProgressFlag,
};

constexpr Flag kPackFlags[] = {
    kModelFlag,
    {"--out", "PATH", "a new directory; of a .gguf file, a new file"},
    {"--keep", "A,B,...",
     "matrices that stay as they are, of head, mixer_in, mixer_out, gate_up,\n"
     "down; default: none"},
    kThreadsFlag,
    kProgressFlag,
};

constexpr Flag kRowFormatFlag{"--format", "jsonl|csv",
                              "instead of the end of the name of --in; default jsonl"};

constexpr Flag kOrderFlags[] = {
    {"--in", "FILE", "rows; default: standard input"},
    {"--out", "FILE", "the rows in their order, in the same format; default: standard output"},
    kRowFormatFlag,
    {"--columns", "A,B,...",
     "those that the prompt is made of; the others go along at the end.\n"
     "Default: all"},
    {"--summary", "FILE", "writes what was shared and is now, as one JSON object"},
    kProgressFlag,
};

constexpr Flag kPartitionFlags[] = {
    {"--parts", "N", "how many workers compute the prompts, each with a cache of its own"},
    {"--in", "FILE", "prompts; default: standard input"},
    {"--out", "FILE", "the prompts, part after part, each with its part; default: standard output"},
    kRowFormatFlag,
    {"--field", "NAME", "of the prompt; default tokens, or else text; CSV: text"},
    {"--balance", "X",
     "the most work of a part, in times of the mean; default 1.05. More balance\n"
     "is fewer tokens computed twice"},
    {"--summary", "FILE", "writes tokens, and what each part computes, as one JSON object"},
    kProgressFlag,
};

}  // namespace

extern const Command kRunCommand = {
    "run",
    "requests in, results out, as JSON",
    "",
    kRunFlags,
    "A request is {\"id\", \"tokens\" | \"text\" | \"messages\", \"task\", ...}; the tasks are "
    "logits,\n"
    "logprobs, choices, embed and generate, and those of texts: rerank, classify, answer, chat, and\n"
    "generate with prompts (docs/recipes.md). A line {\"flush\": true} runs what came before it and\n"
    "keeps the cache. Objects stand one a line, several on one, over many, or in a list. Results come\n"
    "in the order of the requests. Exit code: 0 = all succeeded, 1 = some requests failed, 2 = nothing\n"
    "ran, or what came of it could not be written.",
    "  bin/prefix-random-checkpoint tiny /tmp/tiny\n"
    "  echo '{\"tokens\":[1,5,9,12],\"task\":\"logits\",\"ids\":[3,4]}' |\n"
    "    bin/prefix run --model /tmp/tiny"};

extern const Command kInfoCommand = {
    "info",
    "what a model holds and costs, and what this machine offers",
    "[MODEL]",
    kInfoFlags,
    "Reads the headers of the model files only. MODEL, --machine or --options is needed.",
    "  bin/prefix-random-checkpoint tiny /tmp/tiny\n"
    "  bin/prefix info /tmp/tiny --context 2048 --batch 8\n"
    "  bin/prefix info --machine\n"
    "  bin/prefix info --options"};

extern const Command kTreeCommand = {
    "tree",
    "a picture of how a batch shares, or of a cache: SVG, DOT or text",
    "",
    kTreeFlags,
    "Needs no model for requests that are token ids.",
    "  printf '{\"tokens\":[1,2,3,4]}\\n{\"tokens\":[1,2,3,9]}\\n' | bin/prefix tree"};

extern const Command kCacheSimCommand = {
    "cache-sim",
    "replays operations or a trace through the cache without a model",
    "",
    kCacheSimFlags,
    "An operation is {\"op\": \"match\" | \"insert\" | \"lock\" | \"unlock\", \"tokens\": [...]},\n"
    "{\"op\": \"evict\", \"n\": 5}, or one of reset, dump and stats; its result is one line. A "
    "line of a\n"
    "trace is {\"session_id\", \"turn_id\", \"ts\", \"input_tokens\", \"output_tokens\"}, or "
    "input_runs and\n"
    "output_runs with texts as [seed, length]. docs/cache-policies.md tells how to size a cache.\n"
    "flops_saved counts the matrices only; attention comes on top.\n"
    "Exit code: 0 = all succeeded, 1 = some operations failed, 2 = nothing ran.",
    "  printf '{\"op\":\"insert\",\"tokens\":[1,2,3]}\\n{\"op\":\"match\",\"tokens\":[1,2,9]}\\n' "
    "|\n"
    "    bin/prefix cache-sim --ops -"};

extern const Command kOrderCommand = {
    "order",
    "orders rows and fields of a table so that prompts share prefixes",
    "",
    kOrderFlags,
    "A row is a JSON object whose fields are the columns, or a line of CSV below one of names. The\n"
    "rows come out in their order, JSON with the fields of each in the order of its prompt; CSV has one\n"
    "order of columns, so a last one, prompt_order, names it for each row. Bytes stand for tokens.\n"
    "docs/ordering.md tells what it is worth. Exit code: 0 = done, 2 = nothing was written.",
    "  printf '{\"id\":1,\"film\":\"Dune\"}\\n{\"id\":2,\"film\":\"Heat\"}\\n"
    "{\"id\":3,\"film\":\"Dune\"}\\n' |\n"
    "    bin/prefix order"};

extern const Command kPartitionCommand = {
    "partition",
    "shares prompts out among workers, few tokens computed twice",
    "",
    kPartitionFlags,
    "A prompt is a JSON object with \"tokens\" or \"text\", or a line of CSV below one of\n"
    "names. It comes out on one line, as it is, with its \"part\" from 0, part after part, those that\n"
    "share prefixes beside each other. Bytes of a text stand for tokens. With --parts 1 it tells what\n"
    "sharing saves. Exit code: 0 = done, 2 = nothing was written.",
    "  printf '{\"tokens\":[1,2,3]}\\n{\"tokens\":[7,8]}\\n{\"tokens\":[1,2,9]}\\n' |\n"
    "    bin/prefix partition --parts 2"};

extern const Command kBenchCommand = {
    "bench",
    "measures a model on this machine, shared against unshared",
    "",
    kBenchFlags,
    "Runs the same batch of random token ids with sharing on and off, in pairs, after one warm-up\n"
    "of each, and prints medians.",
    "  bin/prefix-random-checkpoint tiny /tmp/tiny\n"
    "  bin/prefix bench --model /tmp/tiny --shape 8,64,16 --decode 4,64,8,8"};

extern const Command kPackCommand = {
    "pack",
    "writes a model as compute=int8 has it in memory, to load it in less time",
    "",
    kPackFlags,
    "Results are the bits of compute=int8 with the model itself, and with compute_keep=LIST after\n"
    "--keep LIST. What is written runs with compute=int8 only (prefix run --option compute=int8), at\n"
    "every instruction-set level. Prints one JSON object. Nothing appears at --out before it is whole,\n"
    "and nothing is overwritten. Exit code: 0 = done, 2 = nothing was written.",
    "  bin/prefix-random-checkpoint tiny /tmp/tiny\n"
    "  rm -rf /tmp/tiny-int8\n"
    "  bin/prefix pack --model /tmp/tiny --out /tmp/tiny-int8"};

extern const Command kKldCommand = {
    "kld",
    "how far the predictions under one setting are from those under another",
    "",
    kKldFlags,
    "Prints the Kullback-Leibler divergence of the second setting's next-token probabilities from\n"
    "the first's, over all positions of a text: what int8, a quantised file or another number type\n"
    "costs (docs/quantisation.md). Both models are in memory at the same time.",
    "  bin/prefix kld --model models/SmolLM2-135M-Instruct.Q4_1.gguf --text ../README.md \\\n"
    "    --tokens 64 --test compute=int8"};

}  // namespace prefix_cli
