// Files beside each other, by their names; a reader does not know where their bytes are.
//
//   Directory ── open(path / name) ───────┐
//                                         ├──> InputFile: read(at, count)
//   FedFiles ──┬─ bytes in memory ────────┤
//              └─ a function that reads ──┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/read_gate.h"

namespace prefix {

// Fit to be the name of a file in a folder: no path in it, and nothing that does not print.
bool plain_file_name(const std::string& name);
// The same for one that may lie in folders below, "1_Pooling/config.json".
bool plain_file_path(const std::string& path);

class InputFolder {
 public:
  virtual ~InputFolder() = default;
  // Fit for a message.
  virtual std::string name() const = 0;
  // A link that leads nowhere is there, and cannot be opened. Throws kIo when it cannot be told.
  virtual bool has(const std::string& name) const = 0;
  // Throws kNotFound or kIo, naming the file.
  virtual std::shared_ptr<const InputFile> open(const std::string& name) const = 0;
  // The same for a plain name that another file, `by` in messages, lists: what is not inside the
  // folder is kFormat.
  virtual std::shared_ptr<const InputFile> open_listed(const std::string& name,
                                                       const std::string& by) const = 0;
};

class Directory final : public InputFolder {
 public:
  explicit Directory(std::string path) : path_(std::move(path)) {}

  std::string name() const override;
  bool has(const std::string& name) const override;
  std::shared_ptr<const InputFile> open(const std::string& name) const override;
  // Follows no link out of the directory, but those of a Hugging Face cache into its `blobs`.
  std::shared_ptr<const InputFile> open_listed(const std::string& name,
                                               const std::string& by) const override;

 private:
  std::string path_;
};

// What a caller feeds. The bytes and functions must be valid as long as one of the opened files
// reads, or until the gate is closed: functions, until the calls that then run have ended.
class FedFiles final : public InputFolder {
 public:
  // Throws kInvalidArgument for a name that is not plain or is there already.
  void add(const std::string& name, std::span<const std::byte> bytes);
  void add(const std::string& name, uint64_t size, ReadAt read);
  // The same files; none is read any more once the gate is closed.
  FedFiles behind(std::shared_ptr<ReadGate> gate) const;

  std::vector<std::string> names() const;
  std::string name() const override { return "the source"; }
  bool has(const std::string& name) const override { return files_.contains(name); }
  std::shared_ptr<const InputFile> open(const std::string& name) const override;
  std::shared_ptr<const InputFile> open_listed(const std::string& name,
                                               const std::string&) const override {
    return open(name);
  }

 private:
  struct File {
    uint64_t size = 0;
    const std::byte* bytes = nullptr;
    ReadAt read;  // empty: the bytes are in memory
  };
  void add(const std::string& name, File file);

  std::map<std::string, File> files_;
  std::shared_ptr<ReadGate> gate_ = std::make_shared<ReadGate>();
};

}  // namespace prefix
