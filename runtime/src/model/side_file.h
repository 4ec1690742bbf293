// Companion weights files: files beside a model with its large weights.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/src/model/mapped_file.h"

namespace minnow {

// Files are opened at their first use. Only files in the folder of the model are read.
class SideFiles {
 public:
  SideFiles(std::string model_path, FileAccess access) : model_path_(std::move(model_path)), access_(access) {}

  // The bytes [offset, offset + bytes) of the file `name`, or of the model's companion weights file if the name is
  // empty.
  Status read(const std::string& name, int64_t offset, int64_t bytes, const char** data,
              std::shared_ptr<const MappedFile>* file);
  const std::map<std::string, std::shared_ptr<const MappedFile>>& opened() const { return files_; }

 private:
  Status open(const std::string& name, std::shared_ptr<const MappedFile>* file);

  std::string model_path_;
  FileAccess access_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace minnow
