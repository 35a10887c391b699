// prefix order: the rows of a table, and the fields within each, so that rows begin like the ones
// before them. A row as JSON is the prompt, or what a prompt is made of.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "files.h"
#include "json_in.h"
#include "json_members.h"
#include "json_stream.h"
#include "progress.h"
#include "records.h"
#include "results.h"

namespace prefix_cli {
namespace {

// Equal texts are kept once: a table that is worth ordering repeats itself.
struct Column {
  std::string name;
  bool ordered = true;  // else it only goes along
  std::vector<std::string> texts;
  std::unordered_map<std::string, int64_t> numbers;
  std::vector<int64_t> cells;  // [row]: number of its text, or kAbsent

  static constexpr int64_t kAbsent = -1;
  void put(size_t row, const std::string& text) {
    cells.resize(row, kAbsent);
    const auto [it, is_new] = numbers.emplace(text, static_cast<int64_t>(texts.size()));
    if (is_new) texts.push_back(text);
    cells.push_back(it->second);
  }
  const std::string& text(size_t row) const { return texts[static_cast<size_t>(cells[row])]; }
};

class TextTable {
 public:
  TextTable(RowFormat format, std::vector<std::string> only)
      : format_(format), only_(std::move(only)) {}

  void read(LineReader& reader) {
    std::string text;
    if (format_ == RowFormat::kJsonLines) {
      JsonStream stream([&](std::string& line) { return reader.read(line); });
      for (; stream.next(text); ++rows_) read_json(text, stream.line());
    } else if (reader.next_record(text)) {
      for (const std::string& name : csv_fields(text, reader.line())) {
        if (index_.contains(name))
          fail("line ", reader.line(), ": two columns are named ", shown(name, 80));
        column(name, reader.line());
      }
      for (; reader.next_record(text); ++rows_) read_csv(text, reader.line());
    }
    for (Column& c : columns_) c.cells.resize(rows_, Column::kAbsent);
    for (const std::string& name : only_)
      if (rows_ > 0 && !index_.contains(name))
        fail("--columns names ", shown(name), ", which no row has");
  }

  size_t rows() const { return rows_; }
  // Columns that are ordered, by their numbers in `columns`.
  std::vector<size_t> ordered() const {
    std::vector<size_t> list;
    for (size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].ordered) list.push_back(c);
    return list;
  }
  // Row after row of these columns; bytes stand for tokens.
  void cells(const std::vector<size_t>& of, std::vector<int64_t>& values,
             std::vector<int32_t>& lengths) const {
    for (size_t r = 0; r < rows_; ++r) {
      for (const size_t c : of) {
        const Column& column = columns_[c];
        values.push_back(column.cells[r]);
        const bool absent = column.cells[r] == Column::kAbsent;
        lengths.push_back(absent ? 0 : static_cast<int32_t>(bytes(column, r)));
      }
    }
  }

  // The columns of the row in this order, then those that go along.
  void write_json(std::ostream& out, size_t row, const std::vector<size_t>& order) const {
    const char* separator = "";
    out << '{';
    const auto put = [&](const Column& c) {
      if (c.cells[row] == Column::kAbsent) return;
      out << separator << quoted(c.name) << ':' << c.text(row);
      separator = ",";
    };
    for (const size_t c : order) put(columns_[c]);
    for (const Column& c : columns_)
      if (!c.ordered) put(c);
    out << "}\n";
  }
  // CSV has one order of columns: a last one names that of the prompt.
  void write_csv(std::ostream& out, size_t row, const std::vector<size_t>& order) const {
    for (const Column& c : columns_) out << csv_field(c.text(row)) << ',';
    std::string names;
    for (const size_t c : order)
      names += cat(names.empty() ? "" : ",", csv_field(columns_[c].name));
    out << csv_field(names) << '\n';
  }
  void write_header(std::ostream& out) const {
    for (const Column& c : columns_) out << csv_field(c.name) << ',';
    out << kOrderColumn << '\n';
  }

 private:
  static constexpr const char* kOrderColumn = "prompt_order";

  size_t bytes(const Column& column, size_t row) const {
    const size_t text = column.text(row).size();
    if (text > kMaxJsonBytes)
      fail("row ", row, " has a text of ", text, " bytes; the limit is ", kMaxJsonBytes);
    return text + column.name.size() + 4;  // "name":text,
  }

  Column& column(const std::string& name, int64_t line) {
    const auto [it, is_new] = index_.emplace(name, columns_.size());
    if (is_new) {
      if (format_ == RowFormat::kCsv && name == kOrderColumn)
        fail("line ", line, ": there is a column ", kOrderColumn, " already");
      Column& c = columns_.emplace_back();
      c.name = name;
      c.ordered = only_.empty() || std::find(only_.begin(), only_.end(), name) != only_.end();
    }
    return columns_[it->second];
  }

  void read_json(const std::string& text, int64_t line) try {
    for (const auto& [name, value] : json_members(text, "the row"))
      column(name, line).put(rows_, value);
  } catch (const Failure& e) {
    fail("line ", line, ": ", e.what());
  }

  void read_csv(const std::string& record, int64_t line) {
    const std::vector<std::string> fields = csv_fields(record, line);
    if (fields.size() != columns_.size())
      fail("line ", line, " has ", fields.size(), " fields; the header has ", columns_.size());
    for (size_t c = 0; c < fields.size(); ++c) columns_[c].put(rows_, fields[c]);
  }

  RowFormat format_;
  std::vector<std::string> only_;
  std::vector<Column> columns_;
  std::unordered_map<std::string, size_t> index_;
  size_t rows_ = 0;
};

std::vector<std::string> names_of(const Args& args) {
  std::vector<std::string> names;
  if (!args.has("--columns")) return names;
  std::istringstream list(args.get("--columns"));
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  if (names.empty()) fail("--columns is empty; it names at least 1 column");
  return names;
}

prefix::TableOrder order_rows(const TextTable& table, const std::vector<size_t>& columns,
                              Progress& progress) {
  prefix::TableOrder found;
  if (table.rows() > 0 && !columns.empty()) {
    std::vector<int64_t> values;
    std::vector<int32_t> lengths;
    table.cells(columns, values, lengths);
    progress.show_share("ordering", 0);
    found = prefix::order(values, lengths, columns.size());
  } else {
    for (size_t r = 0; r < table.rows(); ++r) found.rows.push_back(static_cast<int64_t>(r));
  }
  return found;
}

void write_rows(const TextTable& table, const std::vector<size_t>& columns,
                const prefix::TableOrder& found, RowFormat format, std::ostream& out,
                Progress& progress) {
  if (format == RowFormat::kCsv) table.write_header(out);
  for (size_t k = 0; k < found.rows.size(); ++k) {
    if (k % 1024 == 0)
      progress.show_share("writing", static_cast<double>(k) / static_cast<double>(table.rows()));
    std::vector<size_t> order;
    for (size_t i = 0; i < columns.size(); ++i)
      order.push_back(columns[static_cast<size_t>(found.columns[k * columns.size() + i])]);
    const auto row = static_cast<size_t>(found.rows[k]);
    format == RowFormat::kCsv ? table.write_csv(out, row, order)
                              : table.write_json(out, row, order);
  }
}

std::string percent(int64_t part, int64_t all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%",
                all > 0 ? 100 * static_cast<double>(part) / static_cast<double>(all) : 0);
  return text;
}

}  // namespace

int order_command(const Args& args) {
  const RowFormat format = row_format(args);
  Progress progress("prefix order", args.choice("--progress", "auto", "auto|on|off"));
  const NamedFile in{"--in", args.get("--in", "-")}, of_out{"--out", args.get("--out", "-")};
  Input input("--in", in.path);
  Output output("--out", of_out.path, {in});
  auto summary = output_if_named(args, "--summary", {in, of_out});

  TextTable table(format, names_of(args));
  LineReader reader(input, progress);
  table.read(reader);
  const std::vector<size_t> columns = table.ordered();
  const prefix::TableOrder found = order_rows(table, columns, progress);
  write_rows(table, columns, found, format, output.stream(), progress);
  progress.clear();
  output.finish();
  const prefix_order_info& info = found.info;
  std::cerr << "prefix order: " << grouped(static_cast<int64_t>(table.rows())) << " rows, "
            << columns.size() << " columns: " << percent(info.hit_before, info.tokens)
            << " of their bytes were shared with the row before, " << percent(info.hit, info.tokens)
            << " are now\n";
  if (summary) {
    summary->stream() << nlohmann::ordered_json{{"rows", table.rows()},
                                                {"columns", columns.size()},
                                                {"bytes", info.tokens},
                                                {"hit_before", info.hit_before},
                                                {"hit", info.hit}}
                             .dump()
                      << "\n";
    summary->finish();
  }
  return kExitOk;
}

}  // namespace prefix_cli
