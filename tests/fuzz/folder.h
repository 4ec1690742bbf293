// A folder of its own for the files that a target writes; they are removed with it.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

namespace minnow::fuzz {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/minnow-fuzz-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() {
    for (const char* suffix : {"", ".weight", ".packed"}) std::remove((model() + suffix).c_str());
    rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string model() const { return path_ + "/m.mnn"; }
  void write(const char* suffix, const void* data, size_t size) const {
    std::FILE* file = std::fopen((model() + suffix).c_str(), "wb");
    if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::abort();
    std::fclose(file);
  }

 private:
  std::string path_;
};

}  // namespace minnow::fuzz
