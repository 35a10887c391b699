// Files of rows that go out again in another order: JSON Lines or CSV, read record by record.
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

// The lines of an input that are not empty, with their numbers, and progress while they are read.
class LineReader {
 public:
  LineReader(Input& input, Progress& progress);
  bool next(std::string& line);
  // The same, going on over line ends within double quotes.
  bool next_record(std::string& record);
  int64_t line() const { return line_; }  // at which the last one began

 private:
  bool read(std::string& line);

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
