#include "records.h"

#include <algorithm>
#include <string_view>

#include "common.h"

namespace prefix_cli {

RowFormat row_format(const Args& args) {
  const bool csv = args.get("--in").ends_with(".csv");
  const std::string name = args.choice("--format", csv ? "csv" : "jsonl", "jsonl|csv");
  return name == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines;
}

LineReader::LineReader(Input& input, Progress& progress) : input_(input), progress_(progress) {
  std::istream& in = input.stream();
  const std::streampos begin = in.tellg();  // standard input may have been read up to here
  in.seekg(0, std::ios::end);
  if (in) {
    size_ = in.tellg() - begin;
    in.seekg(begin);
  }
  in.clear();  // a pipe has no end to go to
}

bool LineReader::read(std::string& line) {
  if (!read_line(input_.stream(), line, next_line_)) {
    input_.check_end();
    progress_.clear();
    return false;
  }
  read_ += static_cast<int64_t>(line.size()) + 1;
  if (next_line_++ % 1024 == 0 && size_ > 0)
    progress_.show_share("reading",
                         std::min(1.0, static_cast<double>(read_) / static_cast<double>(size_)));
  return true;
}

bool LineReader::next_record(std::string& record) {
  do {
    line_ = next_line_;
    if (!read(record)) return false;
    if (line_ == 1 && record.starts_with(kByteOrderMark)) record.erase(0, kByteOrderMark.size());
  } while (record.find_first_not_of(" \t\r") == std::string::npos);
  const auto odd_quotes = [](const std::string& line) {
    return std::count(line.begin(), line.end(), '"') % 2 != 0;
  };
  std::string more;
  for (bool open = odd_quotes(record); open; open = open != odd_quotes(more)) {
    if (!read(more)) fail("line ", line_, ": a double quote is not closed");
    if (record.size() + more.size() > kMaxReadBytes)
      fail("line ", line_, ": a double quote is not closed within ", kMaxReadBytes,
           " bytes, the limit");
    record += '\n';
    record += more;
  }
  if (record.ends_with('\r')) record.pop_back();
  return true;
}

std::vector<std::string> csv_fields(const std::string& record, int64_t line) {
  std::vector<std::string> fields(1);
  bool quoted = false, closed = false;
  for (size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    std::string& field = fields.back();
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < record.size() && record[i + 1] == '"') {
        field += record[++i];
      } else {
        quoted = false;
        closed = true;
      }
    } else if (c == ',') {
      fields.emplace_back();
      closed = false;
    } else if (closed || (c == '"' && !field.empty())) {
      fail("line ", line, ": field ", fields.size(), " has text beside its double quotes");
    } else if (c == '"') {
      quoted = true;
    } else {
      field += c;
    }
  }
  return fields;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace prefix_cli
