#include "cache/store/redis_url.h"

#include <sys/un.h>

#include <charconv>
#include <optional>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";
constexpr size_t kLongest = 4096;

[[noreturn]] void refuse(std::string_view what) {
  fail(Code::kInvalidArgument, "store: ", what,
       "; a URL is redis://[user:password@]host[:port][/database] or "
       "unix://[user:password@]/path, with %XX for special characters");
}

bool only(std::string_view text, std::string_view allowed, std::string_view more = {}) {
  for (const char c : text)
    if (allowed.find(c) == allowed.npos && more.find(c) == more.npos &&
        kDigits.find(c) == kDigits.npos)
      return false;
  return true;
}

// Takes what is before `mark` off the text; nothing, and the text stays, when there is no mark.
std::optional<std::string_view> take_before(std::string_view* text, char mark) {
  const size_t at = text->find(mark);
  if (at == text->npos) return {};
  const std::string_view before = text->substr(0, at);
  text->remove_prefix(at + 1);
  return before;
}

std::string decode(std::string_view text, std::string_view name) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      uint8_t value = 0;
      const char* const end = text.data() + i + 3;
      if (i + 2 >= text.size() || std::from_chars(text.data() + i + 1, end, value, 16).ptr != end)
        refuse(cat("the ", name, " has a % without two hexadecimal digits"));
      c = static_cast<char>(value);
      i += 2;
    } else if (static_cast<uint8_t>(c) <= ' ' || c == 0x7f || c == '@' || c == '?' || c == '#') {
      refuse(cat("the ", name, " has a character that must be written as %XX"));
    }
    if (c == '\0') refuse(cat("the ", name, " has a zero byte"));
    out += c;
  }
  return out;
}

int number(std::string_view text, int least, int most, std::string_view name) {
  int value = -1;
  const char* const end = text.data() + text.size();
  const bool digits = !text.empty() && only(text, kDigits);
  if (!digits || std::from_chars(text.data(), end, value).ec != std::errc() || value < least ||
      value > most)
    refuse(cat("the ", name, " is no number from ", least, " to ", most));
  return value;
}

void parse_login(std::string_view text, RedisAddress* address) {
  const std::optional<std::string_view> user = take_before(&text, ':');
  if (!user || text.empty()) refuse("there is a login without a password");
  if (text.find(':') != text.npos) refuse("the password has a : that must be written as %3A");
  address->user = decode(*user, "user");
  address->password = decode(text, "password");
}

void parse_place(std::string_view text, RedisAddress* address) {
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const std::optional<std::string_view> inside = take_before(&text, ']');
    if (!inside || inside->find(':') == inside->npos || !only(*inside, "abcdefABCDEF", ":."))
      refuse("there is no IPv6 address between the brackets");
    address->host = *inside;
    if (text.empty()) return;
    if (!text.starts_with(':')) refuse("something other than a port follows the host");
  } else {
    const std::string_view host = text.substr(0, text.find(':'));
    if (host.empty()) refuse("there is no host");
    if (!only(host, kLetters, "-._") || host.size() > 253)
      refuse("the host has characters that a name cannot have");
    address->host = host;
    text.remove_prefix(host.size());
    if (text.empty()) return;
  }
  address->port = static_cast<uint16_t>(number(text.substr(1), 1, 65535, "port"));
}

}  // namespace

std::string RedisAddress::display() const {
  if (!path.empty()) return "unix://" + quote(path);
  const bool v6 = host.find(':') != host.npos;
  const std::string shown = quote(host);  // its control characters, not its quotation marks
  return cat("redis://", v6 ? "[" : "", shown.substr(1, shown.size() - 2), v6 ? "]" : "", ":", port,
             "/", database);
}

RedisAddress parse_redis_url(std::string_view url) {
  constexpr std::string_view kRedis = "redis://";
  constexpr std::string_view kUnix = "unix://";
  if (url.size() > kLongest) refuse(cat("the URL has more than ", kLongest, " bytes"));
  if (url.starts_with("rediss://"))
    refuse("TLS (rediss://) is not supported, use a private network or a tunnel");
  const bool redis = url.starts_with(kRedis);
  if (!redis && !url.starts_with(kUnix)) refuse("the URL begins with neither redis:// nor unix://");
  url.remove_prefix(redis ? kRedis.size() : kUnix.size());

  RedisAddress address;
  if (const std::optional<std::string_view> login = take_before(&url, '@')) {
    if (login->find('/') != login->npos) refuse("there is a / or @ that must be written as %XX");
    parse_login(*login, &address);
  }
  if (redis) {
    const size_t slash = url.find('/');
    parse_place(url.substr(0, slash), &address);
    if (slash != url.npos) address.database = number(url.substr(slash + 1), 0, 999999, "database");
  } else {
    if (!url.starts_with('/')) refuse("the path of the socket does not begin with /");
    address.path = decode(url, "path");
    if (address.path.size() >= sizeof(sockaddr_un::sun_path))
      refuse(cat("the path of the socket has more than ", sizeof(sockaddr_un::sun_path) - 1,
                 " bytes"));
  }
  return address;
}

}  // namespace prefix
