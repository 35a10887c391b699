// prefix partition: prompts shared out among workers,
// so that few tokens are computed by two of them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "files.h"
#include "json_in.h"
#include "json_stream.h"
#include "progress.h"
#include "records.h"

namespace prefix_cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct PromptFile {
  std::string header;              // CSV
  std::vector<std::string> lines;  // as they stand
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};

  void end(std::string line) {
    lines.push_back(std::move(line));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  // Without a tokenizer a byte stands for a token: texts that begin alike do so in tokens, too.
  void add_bytes(const std::string& text) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  }
};

void add_tokens(const OrderedJson& list, PromptFile& file) {
  if (!list.is_array()) fail("\"tokens\" is not a list of token ids");
  for (const OrderedJson& token : list) {
    const bool whole = token.is_number_integer();
    if (!whole || token.get<int64_t>() < 0 || token.get<int64_t>() > INT32_MAX)
      fail("\"tokens\" has ", token.dump().substr(0, 60), ", no whole number in [0, ", INT32_MAX,
           "]");
    file.tokens.push_back(static_cast<int32_t>(token.get<int64_t>()));
  }
}

// A line keeps its fields as they stand and gets one more.
void add_json(std::string line, int64_t number, const std::string& field, PromptFile& file) try {
  const auto object = json_in<OrderedJson>(line, "the value");
  if (!object.is_object()) fail("a prompt is an object with \"tokens\" or \"text\"");
  if (object.contains("part")) fail("there is a field \"part\" already");
  const std::string key = !field.empty() ? field : object.contains("tokens") ? "tokens" : "text";
  if (!object.contains(key)) fail("there is no field ", shown(key, 80));
  const OrderedJson& prompt = object[key];
  if (key == "tokens")
    add_tokens(prompt, file);
  else
    file.add_bytes(prompt.is_string() ? prompt.get<std::string>() : prompt.dump());
  line.erase(line.find_last_of('}'));
  file.end(std::move(line));
} catch (const Failure& e) {
  fail("line ", number, ": ", e.what());
}

PromptFile read_json(LineReader& reader, const std::string& field) {
  PromptFile file;
  JsonStream stream([&](std::string& line) { return reader.read(line); });
  for (std::string text; stream.next(text);) add_json(std::move(text), stream.line(), field, file);
  return file;
}

PromptFile read_csv(LineReader& reader, const std::string& field) {
  PromptFile file;
  std::string record;
  if (!reader.next_record(record)) return file;
  file.header = record;
  const std::vector<std::string> names = csv_fields(record, reader.line());
  const std::string wanted = field.empty() ? "text" : field;
  size_t at = names.size();
  for (size_t c = 0; c < names.size(); ++c) {
    if (names[c] == "part") fail("there is a column \"part\" already");
    if (names[c] == wanted) at = c;
  }
  if (at == names.size()) fail("there is no column ", shown(wanted, 80), "; --field names another");
  while (reader.next_record(record)) {
    const std::vector<std::string> fields = csv_fields(record, reader.line());
    if (fields.size() != names.size())
      fail("line ", reader.line(), " has ", fields.size(), " fields; the header has ",
           names.size());
    file.add_bytes(fields[at]);
    file.end(record);
  }
  return file;
}

double balance_of(const Args& args) {
  if (!args.has("--balance")) return 0;
  const std::string text = args.get("--balance");
  char* end = nullptr;
  const double balance = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !(balance >= 1) || std::isinf(balance))
    fail("--balance ", shown(text, 40), " is not a number of at least 1");
  return balance;
}

}  // namespace

int partition_command(const Args& args) {
  const RowFormat format = row_format(args);
  args.need("--parts");
  const auto parts = static_cast<int32_t>(args.get_int("--parts", 1, 1, 1 << 20));
  const double balance = balance_of(args);
  Progress progress("prefix partition", args.choice("--progress", "auto", "auto|on|off"));
  const NamedFile in{"--in", args.get("--in", "-")}, of_out{"--out", args.get("--out", "-")};
  Input input("--in", in.path);
  Output output("--out", of_out.path, {in});
  auto summary = output_if_named(args, "--summary", {in, of_out});

  LineReader reader(input, progress);
  const bool csv = format == RowFormat::kCsv;
  const PromptFile file =
      csv ? read_csv(reader, args.get("--field")) : read_json(reader, args.get("--field"));
  progress.show_share("partitioning", 0);
  const prefix::Parts found = prefix::partition(file.tokens, file.offsets, parts, balance);
  std::ostream& out = output.stream();
  if (csv && !file.header.empty()) out << file.header << ",part\n";
  for (const int64_t i : found.order) {
    const std::string& line = file.lines[static_cast<size_t>(i)];
    const int32_t part = found.parts[static_cast<size_t>(i)];
    csv ? out << line << ',' << part << '\n' : out << line << ",\"part\":" << part << "}\n";
  }
  progress.clear();
  output.finish();
  const prefix_partition_info& info = found.info;
  const auto percent = [](double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
    return std::string(text);
  };
  const double distinct = std::max(1.0, static_cast<double>(info.distinct));
  const double mean = std::max(1.0, static_cast<double>(info.computed) / parts);
  std::cerr << "prefix partition: " << grouped(static_cast<int64_t>(file.lines.size()))
            << " prompts of " << grouped(info.tokens) << " tokens, " << grouped(info.distinct)
            << " of them different; " << parts << " parts compute "
            << percent(static_cast<double>(info.computed - info.distinct) / distinct)
            << " more, the largest " << percent(static_cast<double>(info.largest) / mean)
            << " of their mean\n";
  if (summary) {
    summary->stream() << OrderedJson{{"prompts", file.lines.size()}, {"tokens", info.tokens},
                                     {"distinct", info.distinct},    {"computed", info.computed},
                                     {"largest", info.largest},      {"work", found.work}}
                             .dump()
                      << "\n";
    summary->finish();
  }
  return kExitOk;
}

}  // namespace prefix_cli
