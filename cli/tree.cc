// prefix tree: a picture of how a batch shares. The library plans the batch; this draws the plan.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "files.h"
#include "prepare.h"
#include "requests.h"
#include "text.h"
#include "tree_model.h"

namespace prefix_cli {
namespace {

constexpr size_t kLabelTokens = 8;

// The first tokens of an edge, as text when there is a tokenizer.
std::string label(const nlohmann::json& first, int64_t tokens, LazyText* text) {
  std::vector<int32_t> ids = first.get<std::vector<int32_t>>();
  if (ids.size() > kLabelTokens) ids.resize(kLabelTokens);
  const char* more = static_cast<int64_t>(ids.size()) < tokens ? " …" : "";
  if (text && text->get()) {
    std::string shown = text->get()->decode(ids);
    std::replace(shown.begin(), shown.end(), '\n', ' ');
    return cat("“", shown, "”", more);
  }
  std::string list;
  for (const int32_t id : ids) list += cat(list.empty() ? "" : " ", id);
  return cat("[", list, more, "]");
}

SharedTree read_plan(const std::string& json, LazyText* text) {
  const nlohmann::json plan = nlohmann::json::parse(json);
  SharedTree tree;
  tree.sequences = plan.at("requests");
  tree.given = plan.at("tokens_given");
  tree.computed = plan.at("tokens_distinct");
  for (const nlohmann::json& node : plan.at("nodes")) {
    const auto index = static_cast<int32_t>(tree.bars.size());
    Bar bar;
    bar.parent = node.at("parent");
    bar.tokens = node.at("tokens");
    bar.ends = node.at("requests");
    bar.requests = node.at("below");
    bar.label = label(node.at("first"), bar.tokens, text);
    if (bar.parent >= index)
      fail("the plan of the library has node ", index, " before its parent ", bar.parent);
    (bar.parent < 0 ? tree.roots : tree.bars[static_cast<size_t>(bar.parent)].children)
        .push_back(index);
    tree.bars.push_back(std::move(bar));
  }
  return tree;
}

std::string format_of(const Args& args) {
  if (args.has("--format")) return args.choice("--format", "text", "svg|dot|text");
  const std::string path = args.get("--out");
  if (path.ends_with(".svg")) return "svg";
  if (path.ends_with(".dot") || path.ends_with(".gv")) return "dot";
  return "text";
}

}  // namespace

int tree_command(const Args& args) {
  const std::string format = format_of(args);
  const auto bars = static_cast<int32_t>(args.get_int("--bars", 40, 1, 100000));
  const std::string in_path = args.get("--in", "-");
  Input input("--in", in_path);
  refuse_overwrite("--out", args.get("--out"), "--in", in_path);
  refuse_overwrite("--out", args.get("--out"), "--model", args.get("--model"));
  LazyText text(args.get("--model"));

  Batch batch(nullptr);
  int64_t requests = 0;
  int64_t failed = 0;
  RequestReader reader(input.stream());
  Request request;
  for (auto kind = reader.next(request); kind != RequestReader::Kind::kEnd;
       kind = reader.next(request)) {
    // The picture is of everything together, as one batch.
    if (kind == RequestReader::Kind::kFlush) continue;
    try {
      if (!request.error.empty()) fail(request.error);
      batch.add(request, prepare(request, text));
      ++requests;
    } catch (const std::exception& e) {
      ++failed;
      std::cerr << "prefix tree: left out: " << e.what() << "\n";
    }
  }
  input.check_end();
  SharedTree tree = read_plan(batch.plan_json(), args.has("--model") ? &text : nullptr);
  tree.requests = requests;
  tree = fold(tree, bars);
  const std::string picture = format == "svg"   ? svg_picture(tree)
                              : format == "dot" ? dot_picture(tree)
                                                : text_picture(tree);
  const std::string out_path = args.get("--out", "-");
  if (out_path == "-") {
    std::cout << picture << std::flush;
  } else {
    std::ofstream out(out_path);
    out << picture;
    out.flush();
    if (!out) fail("cannot write --out ", shown(out_path));
    std::cerr << totals_line(tree) << "\n";
  }
  return failed ? kExitSomeFailed : kExitOk;
}

}  // namespace prefix_cli
