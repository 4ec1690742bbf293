#include "runtime/src/model/weight_store.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

#include "kernels/core/interrupt.h"
#include "kernels/core/sort.h"
#include "kernels/core/status_guard.h"
#include "kernels/core/wait.h"
#include "runtime/src/model/buffer.h"

namespace minnow {
namespace {

constexpr int64_t kPieceBytes = int64_t{64} << 20;

}  // namespace

WeightStore::~WeightStore() {
  account_->give_back(packed_);
  for (const Piece& piece : pieces_)
    if (piece.begin != nullptr) munmap(piece.begin, static_cast<size_t>(piece.size));
}

char* WeightStore::take(int64_t bytes) {
  bytes = align_up(std::max<int64_t>(bytes, 1));
  if (bytes > physical_memory()) throw std::bad_alloc();
  if (allocator() != nullptr) {
    Piece piece;
    if (!Buffer::make(bytes, &piece.buffer).ok()) throw std::bad_alloc();
    pieces_.push_back(std::move(piece));
    return pieces_.back().buffer.data();
  }
  if (pieces_.empty() || pieces_.back().end - pieces_.back().used < bytes) {
    // The unused part of a piece takes address space, but no memory. A piece begins and ends with a whole large
    // page.
    Piece piece;
    piece.size = (std::max(bytes, kPieceBytes) / kLargePage + 2) * kLargePage;
    pieces_.reserve(pieces_.size() + 1);  // what could fail after the mapping
    void* memory =
        mmap(nullptr, static_cast<size_t>(piece.size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    piece.begin = static_cast<char*>(memory);
    piece.used = -reinterpret_cast<intptr_t>(memory) & (kLargePage - 1);
    piece.end = piece.used + piece.size - kLargePage;
    pieces_.push_back(std::move(piece));
  }
  Piece& piece = pieces_.back();
  char* result = piece.begin + piece.used;
  piece.used += bytes;
  populate(result, bytes, true, &piece.small);
  return result;
}

const void* WeightStore::find(const std::string& key, int64_t place, int64_t bytes, Fill fill) {
  Entry* entry = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto known = entries_.find(key);
    if (known == entries_.end()) {
      auto made = std::make_unique<Entry>();
      made->place = place;
      made->bytes = bytes;
      known = entries_.emplace(key, std::move(made)).first;
    }
    entry = known->second.get();
  }
  if (const void* data = entry->data) return data;
  const std::unique_lock<std::mutex> lock = wait_for(&entry->filling);
  if (const void* data = entry->data) return data;
  if (const void* data = in_file(key, bytes)) {
    entry->data = data;
    mapped_ += bytes;
    return data;
  }
  if (entry->memory == nullptr) {
    std::lock_guard<std::mutex> taking(mutex_);
    throw_unless(room_for(bytes));
    entry->memory = take(bytes);
    throw_unless(account_->take(bytes));
    packed_ += bytes;
  }
  fill(entry->memory);
  throw_unless(is_whole());  // the next one that asks fills it
  return entry->data = entry->memory;
}

bool WeightStore::peek(const std::string& key, int64_t bytes, void* out) {
  const void* data = in_file(key, bytes);
  if (data == nullptr) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = entries_.find(key);
    if (entry != entries_.end() && entry->second->bytes == bytes) data = entry->second->data;
  }
  if (data != nullptr) std::memcpy(out, data, static_cast<size_t>(bytes));
  return data != nullptr;
}

std::vector<PackedFile::Row> WeightStore::rows() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const decltype(entries_)::value_type*> found;
  // Without those that are being packed, or whose packing failed.
  for (const auto& entry : entries_)
    if (entry.second->data != nullptr) found.push_back(&entry);
  const auto place = [&](int64_t i) { return found[static_cast<size_t>(i)]->second->place; };
  std::vector<PackedFile::Row> rows;
  for (int64_t i :
       order_of(static_cast<int64_t>(found.size()), [&](int64_t a, int64_t b) { return place(a) < place(b); })) {
    const auto& [key, entry] = *found[static_cast<size_t>(i)];
    rows.push_back({key, entry->data, entry->bytes});
  }
  return rows;
}

}  // namespace minnow
