#include "runtime/src/model/packed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "runtime/src/backend/cpu.h"
#include "runtime/src/model/buffer.h"

namespace minnow {
namespace {

// To be raised whenever any kernel packs in another way under the same name; tests/runtime/model/test_packed_weights.py
// holds what they write against it.
constexpr int kFormat = 2;
constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
constexpr int64_t kChunk = int64_t{4} << 20;
constexpr char kPackedMagic[9] = "minnowpk";

enum Field { kMagicField, kEngine, kModel, kModelBytes, kFileBytes, kIndexBytes, kIndexHash, kHeaderHash, kFields };
using Header = uint64_t[kFields];

constexpr int64_t kHashBlock = 64, kAhead = 4096, kPage = 4096;

uint64_t step(uint64_t sum, uint64_t x) {
  sum ^= x;
  return (sum << 29 | sum >> 35) * kPrime;
}

uint64_t magic() {
  uint64_t number;
  std::memcpy(&number, kPackedMagic, sizeof number);
  return number;
}

// What decides how weights are packed, beside the model.
uint64_t engine() {
  const std::string text = std::string(MINNOW_VERSION) + "/" + std::to_string(kFormat) + "/" + cpu_packing();
  return hash_bytes(text.data(), static_cast<int64_t>(text.size()));
}

int64_t total_bytes(const MappedFiles& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += file->size();
  return bytes;
}

uint64_t hash_files(const MappedFiles& files) {
  uint64_t hash = 0;
  for (const auto& file : files) {
    for (int64_t at = 0; at < file->size(); at += kChunk) {
      const int64_t bytes = std::min(kChunk, file->size() - at);
      file->prefetch(file->data() + at, bytes);
      hash = hash_bytes(file->data() + at, bytes, hash);
      file->release(bytes);  // the weights that are packed already are not needed again
    }
    hash = hash_bytes(nullptr, 0, hash);
  }
  return hash;
}

// A hash of one cache line of each page of the weights: it shows pages that were never written, or belong to another
// file, and costs a small part of reading all of them. (The weights in the model's own file are not checked at
// all.)
uint64_t hash_pages(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  uint64_t hash = 0;
  for (int64_t at = 0; at < bytes; at += kPage) hash = hash_bytes(from + at, std::min(kHashBlock, bytes - at), hash);
  const int64_t last = std::max<int64_t>(0, bytes - kHashBlock);  // of a page that may have no other
  return hash_bytes(from + last, bytes - last, hash);
}

// Reads numbers and bytes from the front, until there are none left.
class PackedReader {
 public:
  PackedReader(const char* data, int64_t bytes) : data_(data), left_(bytes) {}
  bool take(void* to, int64_t bytes) {
    if (bytes > left_) return false;
    std::memcpy(to, data_, static_cast<size_t>(bytes));
    data_ += bytes;
    left_ -= bytes;
    return true;
  }
  int64_t left() const { return left_; }

 private:
  const char* data_;
  int64_t left_;
};

// The file that a path names: links are followed, also to a file that does not exist yet.
std::string target_of(std::string path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  char to[PATH_MAX];
  for (int i = 0; i < kMostLinks; ++i) {
    const ssize_t n = readlink(path.c_str(), to, sizeof to);
    if (n < 0) break;
    const size_t folder = to[0] == '/' ? std::string::npos : path.rfind('/');
    path.resize(folder == std::string::npos ? 0 : folder + 1);
    path.append(to, static_cast<size_t>(n));
  }
  return path;
}

// A file under a temporary name; `finish` renames it.
class Output {
 public:
  explicit Output(const std::string& path)
      : name_(path), target_(target_of(path)), part_(target_ + "." + std::to_string(getpid()) + number() + ".part") {
    struct stat there;
    if (stat(target_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      why_ = "it is not a regular file";
      return;
    }
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    file_ = ::open(part_.c_str(), kFlags, 0666);
    // Of a process that was killed, and had the same number: in containers that is likely.
    if (file_ < 0 && errno == EEXIST && unlink(part_.c_str()) == 0) file_ = ::open(part_.c_str(), kFlags, 0666);
    if (file_ >= 0) return;
    if (errno == ENOENT || errno == ENOTDIR) code_ = Code::kUsage;  // its folder does not exist
    note();
  }
  ~Output() {
    if (file_ < 0) return;
    close(file_);
    unlink(part_.c_str());
  }
  void write(const void* data, int64_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0 && why_.empty()) {
      const ssize_t n = ::write(file_, from, static_cast<size_t>(bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return note();
      from += n;
      bytes -= n;
    }
  }
  Status finish() {
    if (why_.empty() && rename(part_.c_str(), target_.c_str()) != 0) note();
    if (!why_.empty()) return fail(code_, "%s: cannot be written: %s", name_.c_str(), why_.c_str());
    close(file_);
    file_ = -1;
    return ok();
  }

 private:
  void note() { why_ = std::strerror(errno); }
  // Another one for each file that this process writes.
  static std::string number() {
    static std::atomic<int> last{0};
    return "-" + std::to_string(++last);
  }

  std::string name_, target_, part_, why_;
  Code code_ = Code::kWrite;
  int file_ = -1;
};

}  // namespace

uint64_t hash_bytes(const void* data, int64_t bytes, uint64_t seed) {
  // Eight sums side by side, asked for ahead: as fast as memory. Each step can be undone, so no change of a single
  // number is lost. By name, not in an array, which compilers would multiply in vectors, at half the speed.
  const auto start = [&](uint64_t i) { return (seed + i) * kPrime; };
  uint64_t a = start(1), b = start(2), c = start(3), d = start(4), e = start(5), f = start(6), g = start(7),
           h = start(8);
  const auto take = [&](const char* from) {
    uint64_t x[8];
    std::memcpy(x, from, sizeof x);
    a = step(a, x[0]), b = step(b, x[1]), c = step(c, x[2]), d = step(d, x[3]);
    e = step(e, x[4]), f = step(f, x[5]), g = step(g, x[6]), h = step(h, x[7]);
  };
  const char* from = static_cast<const char*>(data);
  int64_t left = bytes;
  for (; left >= kHashBlock; left -= kHashBlock, from += kHashBlock) {
#if defined(__GNUC__)
    if (left > kAhead) __builtin_prefetch(from + kAhead);
#endif
    take(from);
  }
  char last[kHashBlock] = {};
  if (left > 0) std::memcpy(last, from, static_cast<size_t>(left));
  take(last);
  uint64_t hash = static_cast<uint64_t>(bytes);
  for (uint64_t lane : {a, b, c, d, e, f, g, h}) hash = step(hash, lane ^ lane >> 32);
  return hash ^ hash >> 29;
}

std::unique_ptr<const PackedFile> PackedFile::open(const std::string& path, const MappedFiles& model,
                                                   FileAccess access) {
  auto packed = std::make_unique<PackedFile>();
  if (!MappedFile::open(path, &packed->file_, access).ok() || !packed->read(model)) return nullptr;
  return packed;
}

bool PackedFile::read(const MappedFiles& model) {
  PackedReader in(file_->data(), file_->size());
  Header h;
  if (!in.take(h, sizeof h) || h[kMagicField] != magic() || h[kEngine] != engine()) return false;
  if (h[kHeaderHash] != hash_bytes(h, sizeof h - sizeof h[0])) return false;
  if (h[kFileBytes] != static_cast<uint64_t>(file_->size()) || h[kIndexBytes] > static_cast<uint64_t>(in.left()) ||
      h[kModelBytes] != static_cast<uint64_t>(total_bytes(model)))
    return false;
  const char* index = file_->data() + sizeof h;
  const auto index_bytes = static_cast<int64_t>(h[kIndexBytes]);
  if (h[kIndexHash] != hash_bytes(index, index_bytes) || h[kModel] != hash_files(model)) return false;
  for (PackedReader rows(index, index_bytes); rows.left() > 0;) {
    uint32_t length = 0;
    std::string key;
    Place place;
    if (!rows.take(&length, sizeof length) || length > rows.left()) return false;
    key.resize(length);
    if (!rows.take(&key[0], length) || !rows.take(&place.offset, sizeof place.offset) ||
        !rows.take(&place.bytes, sizeof place.bytes) || !rows.take(&place.hash, sizeof place.hash))
      return false;
    if (place.offset < 0 || place.bytes < 0 || place.offset % kAlignment != 0 || place.offset > file_->size() ||
        place.bytes > file_->size() - place.offset)
      return false;
    places_[key] = place;
  }
  return true;
}

const void* PackedFile::find(const std::string& key, int64_t bytes) const {
  const auto it = places_.find(key);
  if (it == places_.end() || it->second.bytes != bytes) return nullptr;
  const char* data = file_->data() + it->second.offset;
  file_->prefetch(data, bytes);
  return hash_pages(data, bytes) == it->second.hash ? data : nullptr;
}

Status PackedFile::write(const std::string& path, const MappedFiles& model, const std::vector<Row>& rows) {
  std::string index;
  const auto append = [&](const void* data, size_t bytes) { index.append(static_cast<const char*>(data), bytes); };
  size_t index_bytes = 0;
  for (const Row& row : rows) index_bytes += sizeof(uint32_t) + row.key.size() + sizeof(Place);
  int64_t offset = align_up(static_cast<int64_t>(sizeof(Header) + index_bytes));
  for (const Row& row : rows) {
    const auto length = static_cast<uint32_t>(row.key.size());
    const Place place = {offset, row.bytes, hash_pages(row.data, row.bytes)};
    append(&length, sizeof length);
    append(row.key.data(), row.key.size());
    append(&place, sizeof place);
    offset = align_up(offset + row.bytes);
  }
  Header h = {magic(), engine(), hash_files(model)};
  h[kModelBytes] = static_cast<uint64_t>(total_bytes(model));
  h[kFileBytes] = static_cast<uint64_t>(offset);
  h[kIndexBytes] = index.size();
  h[kIndexHash] = hash_bytes(index.data(), static_cast<int64_t>(index.size()));
  h[kHeaderHash] = hash_bytes(h, sizeof h - sizeof h[0]);

  static constexpr char kZeros[kAlignment] = {};
  Output out(path);
  const auto write = [&](const void* data, int64_t bytes) {
    out.write(data, bytes);
    out.write(kZeros, align_up(bytes) - bytes);
  };
  out.write(h, sizeof h);
  write(index.data(), static_cast<int64_t>(index.size()));
  for (const Row& row : rows) write(row.data, row.bytes);
  return out.finish();
}

}  // namespace minnow
