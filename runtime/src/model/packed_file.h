// The file beside a model that holds its weights packed for one kind of processor: mapped instead of packed at each
// start. Whatever is in it, the worst that comes of it is that it is not used.
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

// Tells apart what differs by accident; not made against malice.
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

  // Null when there is no such file, or it was written for another model, another processor or by another engine, or is
  // damaged. `model`: all files that the model is read from.
  static std::unique_ptr<const PackedFile> open(const std::string& path, const MappedFiles& model);
  // The file appears when it is complete.
  static Status write(const std::string& path, const MappedFiles& model, const std::vector<Row>& rows);

  // Null when they are not there, or damaged.
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
