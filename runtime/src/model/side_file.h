// The files beside a model that hold its big weights.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/src/model/mapped_file.h"

namespace minnow {

// Opened when something is asked of them. Only files in the folder of the model are read.
class SideFiles {
 public:
  explicit SideFiles(std::string model_path) : model_path_(std::move(model_path)) {}

  // The bytes [offset, offset + bytes) of the file `name`, or of the model's own side file when the name is empty.
  Status read(const std::string& name, int64_t offset, int64_t bytes, const char** data,
              std::shared_ptr<const MappedFile>* file);
  const std::map<std::string, std::shared_ptr<const MappedFile>>& opened() const { return files_; }

 private:
  Status open(const std::string& name, std::shared_ptr<const MappedFile>* file);

  std::string model_path_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace minnow
