// JSON of the user, value by value: objects one a line, several on a line, over many lines,
// or as the items of a list.
//
// A broken line fails alone: what cannot be an object goes out as the rest of its line, for
// json_in() to say why, and an object that breaks on a later line than it began on gives the later
// lines back. An object goes out as soon as it is complete, since a program may wait for its answer
// before it writes the next.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <istream>
#include <string>

namespace prefix_cli {

class JsonStream {
 public:
  // Gives the next line of the input without its end; false at the end.
  using Lines = std::function<bool(std::string&)>;

  explicit JsonStream(Lines lines) : lines_(std::move(lines)) {}
  explicit JsonStream(std::istream& in);

  // The next value, without line ends; false at the end. Throws Failure for a list that is not
  // closed, that lacks a comma or that holds what is no object, and can go on behind it.
  bool next(std::string& text);
  // Where it began: the line, from 1, and as the how manyth value of that line, from 1.
  int64_t line() const { return line_; }
  int64_t place() const { return place_; }

 private:
  bool read();        // the next line into current_
  bool skip_space();  // over line ends, too; false at the end of the input
  bool enter_list();
  bool take_object(std::string& text);
  void take_rest(std::string& text);
  void begin_value();  // it is at at_

  Lines lines_;
  std::deque<std::string> given_back_;
  std::string current_;
  size_t at_ = 0;
  int64_t number_ = 0;  // of current_
  int64_t line_ = 0, place_ = 0;

  enum class List { kNone, kStart, kAfterItem, kAfterComma };
  List list_ = List::kNone;
  int64_t list_line_ = 0;
};

}  // namespace prefix_cli
