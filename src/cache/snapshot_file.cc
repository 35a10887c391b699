#include "cache/snapshot_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error_text.h"
#include "base/output_file.h"
#include "base/page.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

constexpr std::string_view kMagic = "PFXSNAP\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kChecked = 64;  // bytes of the header before its checksum
constexpr size_t kHeader = 96;
constexpr size_t kDigest = 32;
enum NodeFlags : uint8_t { kLongRegime = 1, kState = 2, kAsked = 4 };

[[noreturn]] void fail_io(const char* what, const std::string& path, int error) {
  fail(Code::kIo, what, ' ', quote(path, 300), ": ", error_text(error));
}

class Output {
 public:
  template <typename T>
  void number(T value) {
    bytes(&value, sizeof(value));
  }
  void bytes(const void* data, size_t n) { text_.append(static_cast<const char*>(data), n); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Reads what Output wrote; throws kFormat at the end of the bytes.
class Input {
 public:
  explicit Input(std::string_view text) : text_(text) {}
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view bytes(size_t n) {
    if (n > text_.size()) fail(Code::kFormat, "the index of the snapshot ends too early");
    const std::string_view piece = text_.substr(0, n);
    text_.remove_prefix(n);
    return piece;
  }
  // A count of things that take at least `bytes_each`: what cannot be there is not allocated.
  size_t count(size_t bytes_each) {
    const auto n = size_t{number<uint32_t>()};
    if (n > text_.size() / bytes_each)
      fail(Code::kFormat, "the index of the snapshot counts ", n, " entries in ", text_.size(),
           " bytes");
    return n;
  }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::string write_index(const SnapshotIndex& index) {
  Output out;
  out.number(static_cast<uint32_t>(index.namespaces.size()));
  for (const std::vector<std::string>& parts : index.namespaces) {
    out.number(static_cast<uint32_t>(parts.size()));
    for (const std::string& part : parts) {
      out.number(static_cast<uint32_t>(part.size()));
      out.bytes(part.data(), part.size());
    }
  }
  out.number(static_cast<uint32_t>(index.nodes.size()));
  for (const SnapshotNode& n : index.nodes) {
    out.number(n.parent);
    out.number(n.name_space);
    out.number(static_cast<uint8_t>((n.long_regime ? kLongRegime : 0) | (n.state ? kState : 0) |
                                    (n.asked ? kAsked : 0)));
    out.number(n.uses);
    out.number(n.priority);
    if (n.state) out.number(n.state_uses);
    out.number(static_cast<uint32_t>(n.tokens.size()));
    out.bytes(n.tokens.data(), n.tokens.size() * sizeof(int32_t));
  }
  return out.text();
}

constexpr size_t kNodeBytes = 4 + 4 + 1 + 4 + 2 + 4;

SnapshotIndex read_index(std::string_view text) {
  Input in(text);
  SnapshotIndex index;
  index.namespaces.resize(in.count(4));
  for (std::vector<std::string>& parts : index.namespaces) {
    parts.resize(in.count(4));
    for (std::string& part : parts) part = in.bytes(in.number<uint32_t>());
  }
  index.nodes.resize(in.count(kNodeBytes));
  for (size_t i = 0; i < index.nodes.size(); ++i) {
    SnapshotNode& n = index.nodes[i];
    n.parent = in.number<int32_t>();
    n.name_space = in.number<uint32_t>();
    const auto flags = in.number<uint8_t>();
    n.long_regime = (flags & kLongRegime) != 0;
    n.state = (flags & kState) != 0;
    n.asked = (flags & kAsked) != 0;
    n.uses = in.number<uint32_t>();
    n.priority = in.number<int16_t>();
    if (n.state) n.state_uses = in.number<uint32_t>();
    n.tokens.resize(in.count(sizeof(int32_t)));
    if (n.parent < -1 || n.parent >= static_cast<int64_t>(i))
      fail(Code::kFormat, "node ", i, " of the snapshot has node ", n.parent, " as its parent");
    if (n.name_space >= index.namespaces.size())
      fail(Code::kFormat, "node ", i, " of the snapshot is in namespace ", n.name_space, " of ",
           index.namespaces.size());
    if (n.tokens.empty()) fail(Code::kFormat, "node ", i, " of the snapshot has no tokens");
    if (n.parent >= 0) {
      const SnapshotNode& above = index.nodes[static_cast<size_t>(n.parent)];
      if (n.name_space != above.name_space || n.long_regime != above.long_regime)
        fail(Code::kFormat, "node ", i, " of the snapshot and its parent have not the same root");
      n.start = above.end();
    }
    if (n.tokens.size() > static_cast<size_t>(INT32_MAX - n.start))
      fail(Code::kFormat, "node ", i, " of the snapshot ends beyond 2^31 tokens");
    const std::string_view bytes = in.bytes(n.tokens.size() * sizeof(int32_t));
    std::memcpy(n.tokens.data(), bytes.data(), bytes.size());
  }
  if (!in.at_end()) fail(Code::kFormat, "the index of the snapshot has bytes behind its end");
  return index;
}

std::string header_of(const SnapshotShape& shape, const std::string& index) {
  Output out;
  out.bytes(kMagic.data(), kMagic.size());
  out.number(kVersion);
  out.number(shape.page_tokens);
  out.bytes(shape.fingerprint.data(), shape.fingerprint.size());
  out.number(shape.page_bytes);
  out.number(uint64_t{index.size()});
  Sha256 hash;
  const Sha256::Digest digest =
      hash.update(out.text().data(), kChecked).update(index.data(), index.size()).finish();
  out.bytes(digest.data(), digest.size());
  return out.text();
}

// Read at once to be checked, before there is memory for the whole.
constexpr size_t kPiece = size_t{1} << 20;

// All of it, or as much as there is; throws kIo.
size_t read_at(int file, void* out, size_t bytes, uint64_t offset, const std::string& path) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(file, static_cast<char*>(out) + done, bytes - done,
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io("cannot read", path, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

// Whether the checksum of a header is right for the index behind it. Nothing of that is kept: a
// damaged header may take gigabytes of pages for its index. Throws kIo.
bool checksum_fits(int file, std::string_view header, uint64_t index_bytes,
                   const std::string& path) {
  Sha256 hash;
  hash.update(header.data(), kChecked);
  std::vector<char> piece(static_cast<size_t>(std::min<uint64_t>(index_bytes, kPiece)));
  for (uint64_t done = 0; done < index_bytes;) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(index_bytes - done, piece.size()));
    if (read_at(file, piece.data(), wanted, kHeader + done, path) < wanted) return false;
    hash.update(piece.data(), wanted);
    done += wanted;
  }
  const Sha256::Digest digest = hash.finish();
  return std::memcmp(digest.data(), header.data() + kChecked, kDigest) == 0;
}

}  // namespace

// --- writing -------------------------------------------------------------------------------------

namespace {

// A snapshot takes the place of a file: a device or a pipe would be gone for all programs.
void require_place_for_file(const std::string& path) {
  struct stat there{};
  if (lstat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode) || S_ISLNK(there.st_mode)) return;
  fail(Code::kInvalidArgument, "there is no file at ", quote(path, 300), " but a ",
       S_ISDIR(there.st_mode) ? "folder" : "device, pipe or socket",
       "; a snapshot is not put in its place");
}

}  // namespace

SnapshotWriter::SnapshotWriter(const std::string& path, const SnapshotShape& shape,
                               const SnapshotIndex& index)
    : path_(path), part_(path + ".part"), page_bytes_(shape.page_bytes) {
  require_place_for_file(path_);
  lock_part();
  try {
    if (ftruncate(*file_, 0) != 0) fail_io("cannot write", part_, errno);
    const std::string bytes = write_index(index);
    const std::string header = header_of(shape, bytes);
    write(header.data(), header.size());
    write(bytes.data(), bytes.size());
  } catch (...) {
    unlink(part_.c_str());
    throw;
  }
}

// The lock goes with the process, so a file without one was left by a process that died.
void SnapshotWriter::lock_part() {
  for (;;) {
    file_ = Descriptor(open(part_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                            0600));  // prompts are private
    if (!file_) fail_io("cannot write", part_, errno);
    struct stat mine{}, named{};
    if (fstat(*file_, &mine) != 0) fail_io("cannot write", part_, errno);
    if (!S_ISREG(mine.st_mode))
      fail(Code::kIo, "cannot write ", quote(part_, 300), ": a device or pipe has this name");
    if (flock(*file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail_io("cannot lock", part_, errno);
      fail(Code::kMisuse, "another snapshot is being saved to ", quote(path_, 300));
    }
    // The lock is on the file and not on its name, under which a finished one may just have left.
    if (stat(part_.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
        mine.st_dev == named.st_dev)
      return;
  }
}

SnapshotWriter::~SnapshotWriter() {
  if (!finished_) unlink(part_.c_str());
}

void SnapshotWriter::write(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(*file_, at, std::min(bytes, bytes_below_file_limit(part_, written_)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io("cannot write", part_, errno);
    at += n;
    bytes -= static_cast<size_t>(n);
    written_ += n;
  }
}

void SnapshotWriter::add_page(std::span<const std::byte> page) {
  const Sha256::Digest digest = sha256(page);
  write(page.data(), page.size());
  write(digest.data(), digest.size());
}

void SnapshotWriter::add_lost_page() {
  const std::vector<std::byte> zeros(page_bytes_ + kDigest);  // which is not their SHA-256
  write(zeros.data(), zeros.size());
}

int64_t SnapshotWriter::finish() {
  if (fsync(*file_) != 0) fail_io("cannot write", part_, errno);
  if (rename(part_.c_str(), path_.c_str()) != 0) fail_io("cannot rename to", path_, errno);
  finished_ = true;
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const Descriptor directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) fsync(*directory);  // else the new name may be lost with the power, not the file
  return written_;
}

// --- reading -------------------------------------------------------------------------------------

SnapshotReader::SnapshotReader(const std::string& path, const SnapshotShape& wanted)
    : page_bytes_(wanted.page_bytes) {
  file_ = Descriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // of a pipe too
  struct stat info{};
  if (!file_ || fstat(*file_, &info) != 0) {
    if (errno == ENOENT) fail(Code::kNotFound, "there is no snapshot ", quote(path, 300));
    fail_io("cannot read", path, errno);
  }
  std::string header(kHeader, '\0');
  if (!S_ISREG(info.st_mode) || read_at(*file_, header.data(), kHeader, 0, path) < kHeader ||
      !std::string_view(header).starts_with(kMagic))
    fail(Code::kFormat, quote(path, 300), " is not a snapshot");
  Input in(std::string_view(header).substr(kMagic.size()));
  const auto version = in.number<uint32_t>();
  if (version != kVersion)
    fail(Code::kIncompatibleSnapshot, quote(path, 300), " is a snapshot of format ", version,
         "; this library reads ", kVersion);
  SnapshotShape shape;
  shape.page_tokens = in.number<uint32_t>();
  std::memcpy(shape.fingerprint.data(), in.bytes(kDigest).data(), kDigest);
  shape.page_bytes = in.number<uint64_t>();
  const auto index_bytes = in.number<uint64_t>();
  // As long as it was when it was opened: another program may write to it just now.
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < kHeader || index_bytes > bytes - kHeader)
    fail(Code::kFormat, quote(path, 300), " is cut short: it has ", bytes,
         " bytes, and its index alone ", index_bytes);
  std::string index;
  if (checksum_fits(*file_, header, index_bytes, path)) {
    index.resize(static_cast<size_t>(index_bytes));
    index.resize(read_at(*file_, index.data(), index.size(), kHeader, path));
  }
  if (header_of(shape, index) != header)
    fail(Code::kFormat, quote(path, 300), " is damaged: its checksum is wrong");
  if (shape.fingerprint != wanted.fingerprint || shape.page_bytes != wanted.page_bytes ||
      shape.page_tokens != wanted.page_tokens)
    fail(Code::kIncompatibleSnapshot, quote(path, 300),
         " was saved with another model, number type, device or instruction-set level");
  index_ = read_index(index);
  pages_at_ = kHeader + index_bytes;
  uint64_t pages = 0;
  for (const SnapshotNode& n : index_.nodes) {
    first_page_.push_back(pages);
    pages += static_cast<uint64_t>(pages_between(n.start, n.end()));
    if (n.state) pages += static_cast<uint64_t>(wanted.state_pages);
  }
}

bool SnapshotReader::read_page(size_t node, int32_t i, std::span<std::byte> page) const {
  PREFIX_CHECK(page.size() == page_bytes_);
  const uint64_t number = first_page_[node] + static_cast<uint64_t>(i);
  const uint64_t offset = pages_at_ + number * (page_bytes_ + kDigest);
  Sha256::Digest digest;
  try {
    if (read_at(*file_, page.data(), page.size(), offset, "") < page.size() ||
        read_at(*file_, digest.data(), digest.size(), offset + page_bytes_, "") < digest.size())
      return false;
  } catch (const Error&) {
    return false;  // a broken disk: this page is lost, others may not be
  }
  return sha256(page) == digest;
}

}  // namespace prefix
