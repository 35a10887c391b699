#include "json_stream.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "common.h"
#include "files.h"
#include "json_in.h"

namespace prefix_cli {
namespace {

constexpr std::string_view kSpace = " \t\r";

// Where an object ends, found line after line. It follows the brackets, the strings and what may
// stand behind what, so that a line that is cut off is known by the line behind it; the words
// between them are json_in()'s.
class ObjectEnd {
 public:
  enum class Found { kEnd, kMore, kBroken };

  // From `at`, which is behind the end for kEnd.
  Found scan(std::string_view line, size_t& at) {
    for (at = std::min(line.find_first_not_of(kSpace, at), line.size()); at < line.size();
         at = std::min(line.find_first_not_of(kSpace, at), line.size())) {
      if (!take(line, at)) return Found::kBroken;
      if (open_.empty()) return Found::kEnd;
    }
    return Found::kMore;
  }

 private:
  enum class Due { kValue, kFirstItem, kKey, kFirstKey, kColon, kComma };

  bool take(std::string_view line, size_t& at) {
    const char c = line[at];
    switch (due_) {
      case Due::kFirstKey:
        if (c == '}') return close(c, at);
        [[fallthrough]];
      case Due::kKey:
        due_ = Due::kColon;
        return c == '"' && skip_string(line, at);
      case Due::kColon:
        due_ = Due::kValue;
        return c == ':' && ++at;
      case Due::kFirstItem:
        if (c == ']') return close(c, at);
        [[fallthrough]];
      case Due::kValue:
        return take_value(line, at);
      case Due::kComma:
        break;
    }
    if (c != ',') return close(c, at);
    due_ = open_.back() == '}' ? Due::kKey : Due::kValue;
    return ++at;
  }

  bool take_value(std::string_view line, size_t& at) {
    const char c = line[at];
    if (c == '{' || c == '[') {
      if (open_.size() >= kMaxJsonDepth) return false;
      open_.push_back(c == '{' ? '}' : ']');
      due_ = c == '{' ? Due::kFirstKey : Due::kFirstItem;
      return ++at;
    }
    due_ = Due::kComma;
    if (c == '"') return skip_string(line, at);
    const size_t start = at;
    at = std::min(line.find_first_of(" \t\r,:{}[]\"", at), line.size());
    return at > start;
  }

  bool close(char c, size_t& at) {
    if (open_.back() != c) return false;
    open_.pop_back();
    due_ = Due::kComma;
    return ++at;
  }

  // A string has no line end.
  static bool skip_string(std::string_view line, size_t& at) {
    for (++at; at < line.size(); ++at) {
      if (line[at] == '"') return ++at;
      if (line[at] == '\\') ++at;
    }
    return false;
  }

  std::vector<char> open_;  // what closes each
  Due due_ = Due::kValue;
};

}  // namespace

JsonStream::JsonStream(std::istream& in)
    : lines_([&in, number = int64_t{0}](std::string& line) mutable {
        return read_line(in, line, ++number);
      }) {}

bool JsonStream::read() {
  if (!given_back_.empty()) {
    current_ = std::move(given_back_.front());
    given_back_.pop_front();
  } else if (!lines_(current_)) {
    current_.clear();
    at_ = 0;
    return false;
  }
  at_ = 0;
  ++number_;
  return true;
}

bool JsonStream::skip_space() {
  while ((at_ = current_.find_first_not_of(kSpace, at_)) == std::string::npos)
    if (!read()) return false;
  return true;
}

// A list of anything else is for json_in(), as a whole.
bool JsonStream::enter_list() {
  const size_t first = current_.find_first_not_of(kSpace, at_ + 1);
  if (first != std::string::npos && current_[first] != '{' && current_[first] != ']') return false;
  list_ = List::kStart;
  list_line_ = number_;
  ++at_;
  return true;
}

bool JsonStream::next(std::string& text) {
  while (skip_space()) {
    const char c = current_[at_];
    if (list_ == List::kNone && c == '[' && enter_list()) continue;
    if (c == ']' && (list_ == List::kStart || list_ == List::kAfterItem)) {
      list_ = List::kNone;
      ++at_;
      continue;
    }
    if (c == ',' && list_ == List::kAfterItem) {
      list_ = List::kAfterComma;
      ++at_;
      continue;
    }
    begin_value();
    if (c == '{' && list_ == List::kAfterItem) {
      list_ = List::kAfterComma;
      fail("the list that begins in line ", list_line_, " has no comma in front of this object");
    }
    if (c == '{' && take_object(text)) {
      if (list_ != List::kNone) list_ = List::kAfterItem;
      return true;
    }
    take_rest(text);
    const bool in_list = std::exchange(list_, List::kNone) != List::kNone;
    if (in_list && c != '{')
      fail("the list that begins in line ", list_line_,
           " ends with what is no object: ", shown(text, 57));
    return true;
  }
  if (list_ == List::kNone) return false;
  list_ = List::kNone;
  begin_value();
  fail("the list that begins in line ", list_line_, " is not closed");
}

void JsonStream::begin_value() {
  place_ = number_ == line_ ? place_ + 1 : 1;
  line_ = number_;
}

void JsonStream::take_rest(std::string& text) {
  text = current_.substr(at_);
  at_ = current_.size();
}

bool JsonStream::take_object(std::string& text) {
  const size_t start = at_;
  std::vector<std::string> before;  // lines that the object went over
  ObjectEnd end;
  text.clear();
  while (true) {
    const size_t from = std::min(current_.find_first_not_of(kSpace, at_), current_.size());
    const ObjectEnd::Found found = end.scan(current_, at_);
    text.append(current_, from, at_ - from);
    if (found == ObjectEnd::Found::kEnd) return true;
    const size_t held = text.size() + before.size() * sizeof(std::string);
    if (found == ObjectEnd::Found::kBroken || held > kMaxJsonBytes) break;
    before.push_back(std::move(current_));
    if (!read()) break;
  }
  if (!before.empty()) {
    if (number_ == line_ + static_cast<int64_t>(before.size()))
      given_back_.push_front(std::move(current_));
    given_back_.insert(given_back_.begin(), std::make_move_iterator(before.begin() + 1),
                       std::make_move_iterator(before.end()));
    current_ = std::move(before.front());
    number_ = line_;
  }
  at_ = start;
  return false;
}

}  // namespace prefix_cli
