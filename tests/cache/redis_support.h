// Redis servers for tests: a real one, a small client to look into it, and one that answers as the
// test likes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "cache/disk_format.h"
#include "cache/store_plugin.h"
#include "disk_support.h"
#include "support/build_folder.h"
#include "support/temp_folder.h"

namespace prefix::testing_support {

using Words = std::vector<std::string>;

// Why tests with a store cannot run here; empty when they can. A fake server needs the plugin only.
inline std::string no_plugin() {
  setenv("LIBPREFIX_PLUGINS", (build_folder() + "/lib").c_str(), 0);
  return PREFIX_TEST_REDIS ? "" : "libprefix_redis.so is not built: hiredis is not installed";
}
// Debian's redis-tools has the server under the name of redis-check-rdb; it goes by argv[0].
inline const char* redis_program() {
  for (const char* name : {"redis-server", "redis-check-rdb"})
    if (std::system(cat("command -v ", name, " >/dev/null 2>&1").c_str()) == 0) return name;
  return nullptr;
}
inline std::string no_redis() {
  return redis_program() ? no_plugin() : "redis-server is not installed";
}

// First in a test.
#define NEEDS_REDIS() \
  if (const std::string why = testing_support::no_redis(); !why.empty()) GTEST_SKIP() << why
#define NEEDS_PLUGIN() \
  if (const std::string why = testing_support::no_plugin(); !why.empty()) GTEST_SKIP() << why

inline int connect_unix(const std::string& path) {
  const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(s, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return s;
  close(s);
  return -1;
}

inline std::string in_protocol(const Words& words) {
  std::string text = cat('*', words.size(), "\r\n");
  for (const std::string& word : words) text += cat('$', word.size(), "\r\n", word, "\r\n");
  return text;
}

// redis-server on a socket in a folder of its own; it goes with the object and with the process.
class RedisServer {
 public:
  explicit RedisServer(Words arguments = {}) : arguments_(std::move(arguments)) { start(); }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string path() const { return folder_ / "redis.sock"; }
  std::string url() const { return "unix://" + path(); }

  void start() {
    Words words = {"redis-server", "--port", "0", "--unixsocket", path(),    "--dir",
                   folder_.path(), "--save", "",  "--loglevel",   "warning", "--logfile",
                   folder_ / "log"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    const char* const program = redis_program();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execvp(program, list.data());
      _exit(127);
    }
    for (int i = 0; i < 60'000; ++i) {
      const int s = connect_unix(path());
      if (s >= 0) {
        close(s);
        return;
      }
      usleep(1000);
    }
    ADD_FAILURE() << "redis-server does not start";
  }
  void send(int signal) const { ::kill(process_, signal); }
  void kill() {
    if (process_ > 0) {
      send(SIGKILL);
      waitpid(process_, nullptr, 0);
      std::error_code error;
      std::filesystem::remove(path(), error);
    }
    process_ = -1;
  }

  // What redis-cli would print: the text, the number, the error, "(nil)".
  std::string ask(const Words& words) const {
    const int s = connect_unix(path());
    const std::string request = in_protocol(words);
    EXPECT_EQ(write(s, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string reply;
    std::string result = "(broken off)";
    char piece[65536];
    for (ssize_t got; (got = read(s, piece, sizeof(piece))) > 0;) {
      reply.append(piece, static_cast<size_t>(got));
      const size_t line = reply.find("\r\n");
      if (line == reply.npos) continue;
      result = reply.substr(1, line - 1);
      if (reply[0] != '$') break;
      if (result == "-1") {
        result = "(nil)";
        break;
      }
      const size_t size = std::stoull(result);
      if (reply.size() < line + 2 + size + 2) continue;
      result = reply.substr(line + 2, size);
      break;
    }
    close(s);
    return result;
  }
  // A number of INFO, such as "cmdstat_set:calls" or "total_reads_processed".
  uint64_t info(const std::string& section, const std::string& name) const {
    const std::string text = ask({"INFO", section});
    const size_t at = text.find(name);
    if (at == text.npos) return 0;
    return std::stoull(text.substr(at + name.size() + 1));
  }

 private:
  TempFolder folder_;
  Words arguments_;
  pid_t process_ = -1;
};

// Answers each command with the bytes that the test gives. One thread serves all connections.
class FakeRedis {
 public:
  struct Reply {
    Reply(std::string b, bool c = false) : bytes(std::move(b)), then_close(c) {}
    std::string bytes;
    bool then_close;
  };
  using Answer = std::function<Reply(const Words& command)>;

  explicit FakeRedis(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    EXPECT_EQ(pipe2(stop_, O_CLOEXEC), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeRedis() {
    close(stop_[1]);
    thread_.join();
    for (auto& [s, text] : connections_) close(s);
    close(listener_);
    close(stop_[0]);
  }

  std::string path() const { return folder_ / "fake.sock"; }
  std::string url() const { return "unix://" + path(); }
  int accepted() const { return accepted_; }
  // Sends a byte at a time from now on, one each two milliseconds.
  void drip() { drip_ = true; }

 private:
  void serve() {
    for (;;) {
      std::vector<pollfd> polls = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const auto& [s, text] : connections_) polls.push_back({s, POLLIN, 0});
      poll(polls.data(), polls.size(), -1);
      if (polls[0].revents) return;
      if (polls[1].revents) {
        connections_[accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)];
        ++accepted_;
      }
      for (size_t i = 2; i < polls.size(); ++i) {
        if (!polls[i].revents || receive(polls[i].fd)) continue;
        close(polls[i].fd);
        connections_.erase(polls[i].fd);
      }
    }
  }
  bool receive(int s) {
    char piece[65536];
    const ssize_t got = recv(s, piece, sizeof(piece), 0);
    if (got <= 0) return false;
    std::string& text = connections_[s];
    text.append(piece, static_cast<size_t>(got));
    for (;;) {
      const std::optional<Words> command = take(&text);
      if (!command) return true;
      const Reply reply = answer_(*command);
      if (!send_all(s, reply.bytes) || reply.then_close) return false;
    }
  }
  bool send_all(int s, const std::string& text) const {
    for (size_t sent = 0; sent < text.size();) {
      if (drip_) {
        pollfd stopped{stop_[0], POLLIN, 0};
        if (poll(&stopped, 1, 2) != 0) return false;
      }
      const ssize_t n = ::send(s, text.data() + sent, drip_ ? 1 : text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // The first command, off the text; nothing while it is not complete.
  static std::optional<Words> take(std::string* text) {
    size_t at = 0;
    const auto number = [&]() -> std::optional<size_t> {
      const size_t end = text->find("\r\n", at);
      if (end == text->npos) return {};
      const size_t value = std::stoull(text->substr(at + 1, end - at - 1));
      at = end + 2;
      return value;
    };
    Words words;
    const std::optional<size_t> count = number();
    for (size_t i = 0; count && i < *count; ++i) {
      const std::optional<size_t> size = number();
      if (!size || text->size() < at + *size + 2) return {};
      words.push_back(text->substr(at, *size));
      at += *size + 2;
    }
    if (!count) return {};
    text->erase(0, at);
    return words;
  }

  TempFolder folder_;
  Answer answer_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::map<int, std::string> connections_;  // and what they have sent of a command
  std::atomic<int> accepted_{0};
  std::atomic<bool> drip_{false};
  std::thread thread_;
};

// What a server answers that does everything right.
class HonestRedis {
 public:
  std::string answer(const Words& words) {
    const auto value = [&] { return values_.find(words.at(1)); };
    const auto integer = [](size_t n) { return cat(':', n, "\r\n"); };
    const bool there = words.size() > 1 && value() != values_.end();
    const std::string& command = words[0];
    if (command == "PING") return "+PONG\r\n";
    if (command == "EXISTS" || command == "PEXPIRE") return integer(there ? 1 : 0);
    if (command == "STRLEN") return integer(there ? value()->second.size() : 0);
    if (command == "DEL") return integer(values_.erase(words.at(1)));
    if (command == "GETRANGE") {
      const std::string piece =
          there ? value()->second.substr(0, std::stoull(words.at(3)) + 1) : "";
      return cat('$', piece.size(), "\r\n", piece, "\r\n");
    }
    if (command != "SET") return "-ERR unknown command\r\n";
    if (there) return "$-1\r\n";
    values_[words.at(1)] = words.at(2);
    return "+OK\r\n";
  }

 private:
  std::map<std::string, std::string> values_;
};

inline std::string redis_key(uint64_t number) { return "prefix:page:1:" + key_of(number).hex(); }
// The value that a page has in the server.
inline std::string value_of(uint64_t number, size_t size) {
  const std::vector<std::byte> page = page_of(number, size);
  const DiskHeader header = disk_header(key_of(number), page);
  std::string value(reinterpret_cast<const char*>(header.data()), header.size());
  return value.append(reinterpret_cast<const char*>(page.data()), page.size());
}

// Patient, because machines that run tests are slow, and without a pause after failures.
inline StoreOptions patient() {
  StoreOptions options;
  options.connect_timeout = std::chrono::seconds(20);
  options.command_timeout = std::chrono::seconds(20);
  options.pause = std::chrono::milliseconds(0);
  return options;
}
inline StoreOptions hasty() {
  StoreOptions options = patient();
  options.connect_timeout = std::chrono::milliseconds(100);
  options.command_timeout = std::chrono::milliseconds(200);
  return options;
}

struct Pages {
  std::vector<PageKey> keys;
  std::vector<PageBuffer> buffers;
  std::vector<PageBlob> blobs;

  Pages(uint64_t first, size_t count, size_t size) {
    for (uint64_t i = first; i < first + count; ++i) {
      keys.push_back(key_of(i));
      buffers.push_back(buffer_of(size));
      blobs.push_back(blob_of(page_of(i, size)));
    }
  }
  // Hits of a get that are right; a wrong one is a failure.
  size_t right(const TicketPtr& ticket) const {
    size_t n = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!ticket->hit(i)) continue;
      ++n;
      EXPECT_TRUE(std::equal(buffers[i].data.get(), buffers[i].data.get() + buffers[i].size,
                             blobs[i].data.get()))
          << "a hit with wrong bytes, page " << i;
    }
    return n;
  }
};
inline size_t hits(const TicketPtr& ticket) {
  size_t n = 0;
  for (size_t i = 0; i < ticket->pages(); ++i) n += ticket->hit(i);
  return n;
}
inline size_t put_all(Tier& tier, const Pages& pages) {
  const TicketPtr ticket = tier.put(pages.keys, pages.blobs);
  finish(ticket);
  return hits(ticket);
}
inline size_t get_all(Tier& tier, const Pages& pages) {
  const TicketPtr ticket = tier.get(pages.keys, pages.buffers);
  finish(ticket);
  return pages.right(ticket);
}
inline size_t exist_all(Tier& tier, const Pages& pages) {
  const TicketPtr ticket = tier.exists(pages.keys);
  finish(ticket);
  return hits(ticket);
}

// Messages since the last call.
inline std::vector<std::string> messages() {
  std::vector<std::string> list;
  LogLevel level;
  std::string text;
  while (next_log(SIZE_MAX, &level, &text)) list.push_back(text);
  return list;
}
inline std::string all_messages() {
  std::string all;
  for (const std::string& text : messages()) all += text + "\n";
  return all;
}

}  // namespace prefix::testing_support
