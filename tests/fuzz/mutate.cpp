#include "mutate.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

namespace minnow::fuzz {
namespace {

constexpr int kMostDepth = 40;
constexpr size_t kMostBytes = 4096, kMostItems = 256;

constexpr int64_t kNumbers[] = {0,
                                1,
                                -1,
                                2,
                                -2,
                                3,
                                4,
                                5,
                                6,
                                7,
                                8,
                                9,
                                12,
                                13,
                                15,
                                16,
                                17,
                                31,
                                32,
                                33,
                                63,
                                64,
                                65,
                                100,
                                127,
                                128,
                                -128,
                                -129,
                                255,
                                256,
                                1000,
                                4096,
                                32767,
                                65535,
                                65536,
                                1 << 20,
                                1 << 24,
                                (1 << 30) - 1,
                                1 << 30,
                                0x7ffffffe,
                                0x7fffffff,
                                -0x7fffffffLL - 1,
                                -0x7fffffffLL,
                                0x80000000LL,
                                0xffffffffLL,
                                0x100000000LL,
                                1LL << 40,
                                1LL << 61,
                                1LL << 62,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<int64_t>::min() + 1};
const double kFloats[] = {0,    -0.0,  1,    -1,     0.5,   2,        1e-30, 1e-45, 1e9,      3e9,       1e19,
                          1e38, -1e38, 1e-3, 255.49, 1e300, 4.9e-324, 1e6,   NAN,   INFINITY, -INFINITY, 65504};

}  // namespace

template <typename T>
void Mutator::keep(T&& item, Sample<std::decay_t<T>>* sample) {
  ++sample->seen;
  if (sample->items.size() < sample->kMost) {
    sample->items.push_back(std::forward<T>(item));
  } else if (const size_t i = below(sample->seen); i < sample->kMost) {
    sample->items[i] = std::forward<T>(item);
  }
}

void Mutator::learn(const Table& root) { learn(root, 0); }

void Mutator::learn(const Table& table, int depth) {
  if (depth > kMostDepth) return;
  for (const auto& [field, value] : table.fields) {
    const reflection::BaseType base = field->type()->base_type();
    if (is_scalar(base)) keep(uint64_t{value.bits}, &scalars_[field]);
    if (base == reflection::String && value.bytes.size() < kMostBytes) keep(std::string(value.bytes), &texts_[field]);
    if (base == reflection::Vector && value.bytes.size() < kMostBytes) keep(std::string(value.bytes), &vectors_[field]);
    for (const Value& item : value.items) {
      if (item.table == nullptr) {
        keep(std::string(item.bytes), &texts_[field]);
      } else {
        learn(*item.table, depth + 1);
      }
    }
    if (value.table != nullptr) learn(*value.table, depth + 1);
  }
  // A whole graph is too large a part.
  if (depth == 0) return;
  Sample<Table>& sample = tables_[table.type];
  // After the first, copies cost more than they tell.
  if (sample.items.size() == sample.kMost && !chance(0.05)) return;
  size_t bytes = 0;
  for (const auto& [field, value] : table.fields) bytes += value.bytes.size() + 16 * value.items.size();
  if (bytes < kMostBytes) {
    ++sample.seen;
    const size_t i = sample.items.size() < sample.kMost ? sample.items.size() : below(sample.kMost);
    Table copy(table.type);
    for (const auto& [field, value] : table.fields) copy.fields.emplace(field, Value(value));
    if (i == sample.items.size()) {
      sample.items.push_back(std::move(copy));
    } else {
      sample.items[i] = std::move(copy);
    }
  }
}

void Mutator::gather(Table* table, int depth) {
  if (depth > kMostDepth) return;
  for (const reflection::Field* field : *table->type->fields()) {
    const auto it = table->fields.find(field);
    if (it == table->fields.end()) {
      absent_.push_back({table, field});
      continue;
    }
    present_.push_back({table, field});
    Value& value = it->second;
    if (field->type()->base_type() == reflection::String) strings_.push_back(&value.bytes);
    for (Value& item : value.items) {
      if (item.table != nullptr) {
        gather(item.table.get(), depth + 1);
      } else {
        strings_.push_back(&item.bytes);
      }
    }
    if (depth < 3 && field->type()->base_type() == reflection::Vector)
      tensors_ = std::max(tensors_, value.items.size());
    if (value.table != nullptr) gather(value.table.get(), depth + 1);
  }
}

void Mutator::change(Table* root, unsigned seed) {
  dice_.seed(seed);
  for (size_t i = chance(0.6) ? 1 : 1 + below(4); i > 0; --i) {
    present_.clear(), absent_.clear(), strings_.clear();
    tensors_ = 0;
    gather(root, 0);
    if (present_.empty()) return;
    const bool new_field = !absent_.empty() && chance(0.15);
    change(new_field ? absent_[below(absent_.size())] : present_[below(present_.size())]);
  }
}

std::unique_ptr<Table> Mutator::other(const reflection::Object* type) {
  const auto it = tables_.find(type);
  if (it == tables_.end() || it->second.items.empty() || chance(0.1)) return std::make_unique<Table>(type);
  const Table& from = it->second.items[below(it->second.items.size())];
  auto copy = std::make_unique<Table>(type);
  for (const auto& [field, value] : from.fields) copy->fields.emplace(field, Value(value));
  return copy;
}

void Mutator::change(const Slot& slot) {
  const reflection::Type& type = *slot.field->type();
  const bool there = slot.table->fields.count(slot.field) != 0;
  if (type.base_type() == reflection::Union) return change_union(slot);
  if (there && !slot.field->required() && chance(0.05)) {
    slot.table->fields.erase(slot.field);
    return;
  }
  Value* value = &slot.table->fields[slot.field];
  if (is_scalar(type.base_type())) {
    const Sample<uint64_t>& known = scalars_[slot.field];
    if (!known.items.empty() && chance(0.3)) {
      value->bits = known.items[below(known.items.size())];
    } else {
      change_scalar(value, type);
    }
  } else if (type.base_type() == reflection::String) {
    change_text(&value->bytes, &slot);
  } else if (type.base_type() == reflection::Obj) {
    value->table = other(schema_.object(type.index()));
  } else if (is_scalar(type.element())) {
    if (value->table != nullptr && chance(0.95)) return;  // metadata: its fields have slots of their own
    value->table = nullptr;
    change_numbers(value, slot);
  } else {
    change_list(value, slot);
  }
}

uint64_t Mutator::number(const reflection::Type& type, reflection::BaseType base, uint64_t before) {
  const bool counts = base != reflection::Float && base != reflection::Double;
  if (type.index() >= 0 && counts && chance(0.8)) {
    const auto& rows = *schema_.enumeration(type.index())->values();
    return static_cast<uint64_t>(rows.Get(static_cast<flatbuffers::uoffset_t>(below(rows.size())))->value());
  }
  if (base == reflection::Bool) return below(2);
  if (counts) {
    if (tensors_ > 0 && chance(0.25)) return below(tensors_ + 1);  // a tensor, perhaps
    if (chance(0.3)) return before + below(9) - 4;
    if (chance(0.2)) return below(10);
    return static_cast<uint64_t>(kNumbers[below(std::size(kNumbers))]);
  }
  const double chosen = chance(0.3) ? static_cast<double>(below(20)) - 5 : kFloats[below(std::size(kFloats))];
  uint64_t bits = 0;
  if (base == reflection::Double) {
    std::memcpy(&bits, &chosen, sizeof chosen);
  } else {
    const bool fits = !std::isfinite(chosen) || std::fabs(chosen) <= 3e38;
    const auto single = static_cast<float>(fits ? chosen : 3e38);
    std::memcpy(&bits, &single, sizeof single);
  }
  return bits;
}

void Mutator::change_scalar(Value* value, const reflection::Type& type) {
  value->bits = number(type, type.base_type(), value->bits);
}

void Mutator::change_numbers(Value* value, const Slot& slot) {
  const reflection::Type& type = *slot.field->type();
  const size_t size = size_of(type.element());
  std::string& bytes = value->bytes;
  const size_t n = bytes.size() / size;
  const auto set = [&](size_t i) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    if (type.element() == reflection::Int)
      bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
    bits = number(type, type.element(), bits);
    std::memcpy(&bytes[i * size], &bits, size);
  };
  const size_t kind = below(10);
  if (n > 0 && kind < 5) {
    set(below(n));
  } else if (kind == 5 && bytes.size() < kMostBytes) {  // one more
    const size_t i = below(n + 1);
    bytes.insert(i * size, size, '\0');
    set(i);
  } else if (kind == 6 && n > 0) {  // one less
    bytes.erase(below(n) * size, size);
  } else if (kind == 7) {  // cut off, or longer
    const size_t most = std::min(kMostBytes / size, 2 * n + 8);
    bytes.resize(below(most + 1) * size);
  } else if (kind == 8) {  // those of another file
    const Sample<std::string>& known = vectors_[slot.field];
    if (!known.items.empty()) bytes = known.items[below(known.items.size())];
  } else {
    const size_t room = std::min<size_t>(std::max<size_t>(2 * bytes.size(), 64), std::max(bytes.size(), kMostBytes));
    std::string copy = bytes;
    copy.resize(room);
    copy.resize(change_bytes_(reinterpret_cast<uint8_t*>(&copy[0]), bytes.size(), room) / size * size);
    bytes = std::move(copy);
  }
}

void Mutator::change_list(Value* value, const Slot& slot) {
  const reflection::Type& type = *slot.field->type();
  std::vector<Value>& items = value->items;
  const size_t n = items.size(), i = below(n), j = below(n);
  const auto at = [&](size_t k) { return items.begin() + static_cast<std::ptrdiff_t>(k); };
  const bool texts = type.element() == reflection::String;
  switch (below(6)) {
    case 0:
      if (n > 0) items.erase(at(i));
      return;
    case 1:
      if (n > 0 && n < kMostItems) items.insert(at(j), Value(items[i]));
      return;
    case 2:
      if (n > 0) std::swap(items[i], items[j]);
      return;
    case 3:
      if (texts && n > 0) return change_text(&items[i].bytes, &slot);
      if (n > 0) items[i].table = other(schema_.object(type.index()));
      return;
    case 4:
      if (n > 0 && chance(0.2)) items.resize(i);
      return;
    default:
      if (n >= kMostItems) return;
      Value item;
      if (texts) {
        change_text(&item.bytes, &slot);
      } else {
        item.table = other(schema_.object(type.index()));
      }
      items.insert(at(below(n + 1)), std::move(item));
  }
}

void Mutator::change_text(std::string* text, const Slot* slot) {
  if (!text->empty() && ((*text)[0] == '[' || (*text)[0] == '{') && chance(0.9)) return change_json(text);
  const Sample<std::string>& known = texts_[slot->field];
  if (!strings_.empty() && chance(0.4)) {  // a name of the same file: a subgraph, a tensor
    *text = std::string(*strings_[below(strings_.size())]);
  } else if (!known.items.empty() && chance(0.8)) {
    *text = known.items[below(known.items.size())];
  } else {
    std::string copy = *text;
    copy.resize(text->size() + 16);
    copy.resize(change_bytes_(reinterpret_cast<uint8_t*>(&copy[0]), text->size(), copy.size()));
    *text = copy;
  }
}

// A number or a word of it is another, or a part is missing or there twice.
void Mutator::change_json(std::string* text) {
  size_t begin = below(text->size());
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  while (begin < text->size() && !is_word((*text)[begin])) ++begin;
  size_t end = begin;
  while (begin > 0 && is_word((*text)[begin - 1])) --begin;
  while (end < text->size() && is_word((*text)[end])) ++end;
  if (chance(0.1)) {
    const size_t a = below(text->size()), length = below(24);
    const std::string part = text->substr(a, length);
    if (chance(0.5)) {
      text->erase(a, length);
    } else if (text->size() < kMostBytes) {
      text->insert(below(text->size()), part);
    }
    return;
  }
  std::string word;
  if (begin < end && std::isalpha(static_cast<unsigned char>((*text)[begin])) != 0 && chance(0.8)) {
    static const char* const kWords[] = {"f32",  "f64", "f16",    "bf16", "i8",  "u8",       "i16",
                                         "u16",  "i32", "u32",    "i64",  "u64", "bool",     "null",
                                         "true", "i4",  "f8e5m2", "n",    "?",   "sequence", "optional",
                                         "[",    "]",   "{",      "}",    "\"",  "\\u0000"};
    word = !strings_.empty() && chance(0.4) ? *strings_[below(strings_.size())] : kWords[below(std::size(kWords))];
    if (word.size() > 64) word.resize(64);
  } else {
    word = std::to_string(chance(0.3) ? static_cast<int64_t>(below(9)) : kNumbers[below(std::size(kNumbers))]);
    if (chance(0.1)) word += "e30";
  }
  text->replace(begin, end - begin, word);
}

void Mutator::change_union(const Slot& slot) {
  const reflection::Field* tag = schema_.tag(*slot.table->type, *slot.field);
  uint64_t kind = slot.table->fields[tag].bits;
  if (kind == 0 || chance(0.5)) {
    const auto& rows = *schema_.enumeration(slot.field->type()->index())->values();
    kind = static_cast<uint64_t>(rows.Get(static_cast<flatbuffers::uoffset_t>(below(rows.size())))->value());
  }
  const reflection::Object* member = schema_.member(*slot.field, kind);
  slot.table->fields[tag].bits = kind;
  slot.table->fields.erase(slot.field);
  if (member != nullptr) slot.table->fields[slot.field].table = other(member);
}

}  // namespace minnow::fuzz
