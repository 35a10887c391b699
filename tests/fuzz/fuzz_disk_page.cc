// A page as a file of the cache folder, and the names of files there. The input: a choice, and the
// name or the bytes of the file. Chosen by a bit, the header is the right one for the page and the
// input only changes it, because no accident finds a checksum.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cache/disk_folder.h"
#include "cache/disk_format.h"
#include "target.h"

namespace prefix::fuzz {
namespace {

constexpr size_t kPage = 48;

// A folder in memory where the system has one, with one page file that stays open.
class Folder {
 public:
  Folder() {
    for (size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<uint8_t>(7 * i);
    const std::filesystem::path shared = "/dev/shm";
    path_ = (std::filesystem::is_directory(shared) && access(shared.c_str(), W_OK) == 0
                 ? shared
                 : std::filesystem::temp_directory_path()) /
            "prefix-fuzz-XXXXXX";
    KEEP(mkdtemp(path_.data()));
    folder = std::make_unique<DiskFolder>(path_, DiskSync::kNever, DiskFolder::Fault());
    const std::vector<std::byte> page(kPage);
    std::optional<DiskFolder::Unpublished> fresh = folder->write(key, page, 0);
    KEEP(fresh && folder->publish(*fresh, key));
    file_ = open((path_ + "/" + disk_page_name(key)).c_str(), O_RDWR | O_CLOEXEC);
    KEEP(file_ >= 0);
  }
  ~Folder() {
    close(file_);
    std::filesystem::remove_all(path_);
  }

  void write(std::span<const std::byte> bytes) const {
    KEEP(ftruncate(file_, static_cast<off_t>(bytes.size())) == 0);
    KEEP(pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

  PageKey key;
  std::unique_ptr<DiskFolder> folder;

 private:
  std::string path_;
  int file_ = -1;
};

// A name of the folder is that of one page, or of none.
void names(int number, std::string_view name) {
  const std::optional<PageKey> key = disk_page_of(number, name);
  KEEP(!key || disk_page_name(*key) == disk_folder_name(number) + "/" + std::string(name));
  KEEP(!key || !is_disk_temporary(name));
}

}  // namespace

void run_disk_page(Input input) {
  static Folder folder;
  Taker take(input);
  const uint8_t choice = take.byte();
  if (choice % 4 == 0) return names(take.byte(), text_of(take.rest()));
  const bool raw = choice % 4 == 1;
  const Input change = take.bytes(choice % 4 == 3 ? 4 : 0);
  const Input content = take.rest();
  std::vector<std::byte> file((raw ? 0 : kDiskHeader) + content.size());
  if (!content.empty())
    std::memcpy(file.data() + file.size() - content.size(), content.data(), content.size());
  if (!raw) {
    const DiskHeader header = disk_header(folder.key, bytes_of(content));
    std::memcpy(file.data(), header.data(), header.size());
    for (size_t i = 0; i + 1 < change.size(); i += 2)  // place and bits
      file[change[i] % file.size()] ^= std::byte{change[i + 1]};
  }
  folder.write(file);
  std::vector<std::byte> page(kPage);
  const DiskFolder::Read result = folder.folder->read(folder.key, page, 1);
  KEEP(result == DiskFolder::Read::kHit || result == DiskFolder::Read::kDamaged);
  // A hit is the one file that the key and the page have, and every such file is a hit.
  const DiskHeader header = disk_header(folder.key, page);
  const bool right = file.size() == kDiskHeader + kPage &&
                     std::equal(header.begin(), header.end(), file.begin()) &&
                     std::equal(page.begin(), page.end(), file.begin() + kDiskHeader);
  KEEP((result == DiskFolder::Read::kHit) == right);
}

}  // namespace prefix::fuzz
