// prefix tree: a picture of how a batch shares, or of what a cache holds. The library plans the
// batch and lists the cache, as JSON; this draws it.
#include <iostream>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "files.h"
#include "prepare.h"
#include "requests.h"
#include "text.h"
#include "tree_model.h"
#include "tree_picture.h"
#include "tree_read.h"
#include "tree_words.h"

namespace prefix_cli {
namespace {

std::string format_of(const Args& args) {
  if (args.has("--format")) return args.choice("--format", "text", "svg|dot|text");
  const std::string path = args.get("--out");
  if (path.ends_with(".svg")) return "svg";
  if (path.ends_with(".dot") || path.ends_with(".gv")) return "dot";
  return "text";
}

Tree cache_of(const Args& args) {
  for (const char* const flag : {"--in", "--model"})
    if (args.has(flag)) fail("--from paints a cache and takes no ", flag);
  const std::string path = args.get("--from");
  const std::string json = Input("--from", path).read_all();
  try {
    return read_cache(json);
  } catch (const Failure& e) {
    fail("--from ", shown(path), ": ", e.what());
  }
}

// failed: requests that are left out, each with a line on standard error.
Tree batch_of(const Args& args, int64_t& failed) {
  const std::string in_path = args.get("--in", "-");
  Input input("--in", in_path);
  LazyText text(args.get("--model"));
  if (args.has("--model")) text.need();

  Batch batch;
  int64_t requests = 0;
  RequestReader reader(input.stream());
  Request request;
  for (auto kind = reader.next(request); kind != RequestReader::Kind::kEnd;
       kind = reader.next(request)) {
    // The picture is of everything together, as one batch.
    if (kind == RequestReader::Kind::kFlush) continue;
    try {
      if (!request.error.empty()) fail(request.error);
      add(batch, request, prepare(request, text));
      ++requests;
    } catch (const std::exception& e) {
      ++failed;
      std::cerr << "prefix tree: left out: " << e.what() << "\n";
    }
  }
  input.check_end();
  Tree tree = read_plan(batch.plan_json(), args.has("--model") ? &text : nullptr);
  tree.requests = requests;
  return tree;
}

}  // namespace

int tree_command(const Args& args) {
  const std::string format = format_of(args);
  const auto bars = static_cast<int32_t>(args.get_int("--bars", 40, 1, 100000));
  const bool from_cache = args.has("--from");
  const TreeWords& words = from_cache ? cache_words() : batch_words();
  Output out("--out", args.get("--out", "-"),
             {{"--in", from_cache ? "" : args.get("--in", "-")},
              {"--from", args.get("--from")},
              {"--model", args.get("--model")}});
  int64_t failed = 0;
  const Tree tree = fold(from_cache ? cache_of(args) : batch_of(args, failed), bars);
  const std::string picture = format == "svg"   ? svg_picture(tree, words)
                              : format == "dot" ? dot_picture(tree, words)
                                                : text_picture(tree, words);
  out.stream() << picture;
  out.finish();
  if (args.get("--out", "-") != "-") std::cerr << words.totals(tree) << "\n";
  return failed ? kExitSomeFailed : kExitOk;
}

}  // namespace prefix_cli
