#include "runtime/src/verify.h"

#include <array>
#include <iterator>

#include "flatbuffers/base.h"

namespace minnow {
namespace {

// Where the fields of each table begin.
constexpr auto kFirst = [] {
  std::array<uint16_t, wire::kTables> first{};
  uint16_t at = 0;
  for (uint16_t& place : first)
    for (place = at; wire::kFields[at++] != wire::kEnd;) continue;
  return first;
}();

constexpr int kMostDepth = 64;
constexpr int kMostTables = 4000000;  // those that are reached twice count twice

class Verifier {
 public:
  Verifier(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool root(wire::Table type) {
    const size_t at = follow(0);
    return at != 0 && table(at, type);
  }

 private:
  template <typename T>
  T read(size_t at) const {
    return flatbuffers::ReadScalar<T>(data_ + at);
  }

  bool holds(size_t at, size_t bytes, size_t alignment) const {
    return bytes <= size_ && at <= size_ - bytes && at % alignment == 0;
  }

  // Where the offset stored here leads; 0 where that is nowhere.
  size_t follow(size_t at) const {
    if (!holds(at, 4, 4)) return 0;
    const uint32_t offset = read<uint32_t>(at);
    return offset > 0 && offset <= INT32_MAX && holds(at + offset, 1, 1) ? at + offset : 0;
  }

  bool vector(size_t at, size_t bytes, size_t* count) const {
    if (!holds(at, 4, 4)) return false;
    *count = read<uint32_t>(at);
    return *count <= size_ / bytes && holds(at + 4, *count * bytes, 1);
  }

  bool string(size_t at) const {
    size_t count = 0;
    return vector(at, 1, &count) && holds(at + 4 + count, 1, 1) && data_[at + 4 + count] == 0;
  }

  bool table(size_t at, int type) {
    if (!holds(at, 4, 4)) return false;
    const size_t slots = at - static_cast<size_t>(static_cast<int64_t>(read<int32_t>(at)));  // may wrap, and is checked
    if (!holds(slots, 2, 2)) return false;
    const size_t length = read<uint16_t>(slots);
    if (length % 2 != 0 || !holds(slots, length, 1)) return false;
    if (++depth_ > kMostDepth || ++tables_ > kMostTables) return false;
    size_t number = 0;  // in a field of one byte that is there: for a union, its type
    size_t slot = 4;
    for (const uint16_t* kind = wire::kFields + kFirst[static_cast<size_t>(type)]; *kind != wire::kEnd;
         ++kind, slot += 2) {
      const size_t away = slot < length ? read<uint16_t>(slots + slot) : 0;
      if (away == 0 ? (*kind & wire::kNeeded) != 0 : !field(at + away, *kind & ~wire::kNeeded, number)) return false;
      number = away != 0 && *kind == 1 ? data_[at + away] : 0;
    }
    --depth_;
    return true;
  }

  bool field(size_t at, int kind, size_t number) {
    if (is_number(kind)) return holds(at, static_cast<size_t>(kind), static_cast<size_t>(kind));
    const size_t to = follow(at);
    if (to == 0) return false;
    if (kind < wire::kVector) return value(to, kind, number);
    kind -= wire::kVector;
    size_t count = 0;
    if (is_number(kind)) return vector(to, static_cast<size_t>(kind), &count);
    if (!vector(to, 4, &count)) return false;
    for (size_t i = 1; i <= count; ++i) {
      const size_t item = follow(to + 4 * i);
      if (item == 0 || !value(item, kind, 0)) return false;
    }
    return true;
  }

  bool value(size_t at, int kind, size_t number) {
    if (kind == wire::kString) return string(at);
    if (kind != wire::kUnion) return table(at, kind - wire::kTable);
    // Of a type that is not known, nothing is read.
    return number == 0 || number > std::size(wire::kUnionTables) || table(at, wire::kUnionTables[number - 1]);
  }

  static bool is_number(int kind) { return kind == 1 || kind == 2 || kind == 4 || kind == 8; }

  const uint8_t* data_;
  size_t size_;
  int depth_ = 0, tables_ = 0;
};

}  // namespace

bool verify(const uint8_t* data, size_t size, wire::Table root) { return Verifier(data, size).root(root); }

}  // namespace minnow
