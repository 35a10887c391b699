// A folder in the temporary one, for models and pages; it goes with the object.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "base/error_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix::bench {

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "prefix-bench-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      fail(Code::kIo, "cannot make the folder ", quote_path(path_), ": ", error_text(errno));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace prefix::bench
