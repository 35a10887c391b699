// Files of rows that go out again in another order:
// JSON (json_stream.h) or CSV, read record by record.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "args.h"
#include "files.h"
#include "progress.h"

namespace prefix_cli {

enum class RowFormat { kJsonLines, kCsv };

// --format, else by the end of the name of --in.
RowFormat row_format(const Args& args);

// The lines of an input, and progress while they are read.
class LineReader {
 public:
  LineReader(Input& input, Progress& progress);
  bool read(std::string& line);
  // The next record of CSV, over line ends within double quotes; empty lines are none. A byte order
  // mark at the beginning, which spreadsheets write, is left out.
  bool next_record(std::string& record);
  int64_t line() const { return line_; }  // at which the last record began

 private:
  Input& input_;
  Progress& progress_;
  int64_t size_ = 0;  // bytes; 0: not known
  int64_t read_ = 0;
  int64_t next_line_ = 1, line_ = 0;
};

// RFC 4180: fields in double quotes may hold commas, line ends and doubled quotes.
std::vector<std::string> csv_fields(const std::string& record, int64_t line);
std::string csv_field(const std::string& text);

}  // namespace prefix_cli
