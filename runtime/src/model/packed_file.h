// The companion file with a model's weights packed for one kind of processor, which is mapped instead of packing them
// at each start. If it is damaged or does not match, it is not used.
//
// A header of eight numbers of 64 bits, little-endian: magic, engine, model, bytes of the model, bytes of this file,
// bytes of the index, hash of the index, hash of the numbers before. Then the index: per row the length of the key (32
// bits), the key, offset, bytes and hash of the weights. Then the weights, each at a multiple of 64.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/src/model/mapped_file.h"

namespace minnow {

using MappedFiles = std::vector<std::shared_ptr<const MappedFile>>;

// Detects accidental differences; not a cryptographic hash.
uint64_t hash_bytes(const void* data, int64_t bytes, uint64_t seed = 0);

class PackedFile {
 public:
  struct Row {
    std::string key;
    const void* data = nullptr;
    int64_t bytes = 0;
  };

  // What is appended to the model's name.
  static constexpr const char* kSuffix = ".packed";

  // Null if there is no such file, if it was written for another model or processor or by another version, or is
  // damaged. `model`: all files of the model.
  static std::unique_ptr<const PackedFile> open(const std::string& path, const MappedFiles& model, FileAccess access);
  // Writes the file; it appears only when it is complete.
  static Status write(const std::string& path, const MappedFiles& model, const std::vector<Row>& rows);

  // The weights with this key; null if they are missing or damaged.
  const void* find(const std::string& key, int64_t bytes) const;

 private:
  struct Place {
    int64_t offset = 0, bytes = 0;
    uint64_t hash = 0;
  };
  bool read(const MappedFiles& model);

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Place> places_;
};

}  // namespace minnow
