// A folder in the temporary one, for models and pages. It goes with the object, and when Ctrl-C or its
// like ends the program.
#pragma once

#include <string>

namespace prefix::bench {

class Folder {
 public:
  // The first one starts a thread that waits for such signals, which threads that come later leave to it.
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace prefix::bench
