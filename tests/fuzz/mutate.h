// Changes a .mnn file in a few places, in ways that its schema allows.
#pragma once

#include <array>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "tree.h"

namespace minnow::fuzz {

// What libFuzzer does to bytes that mean nothing to us.
using ChangeBytes = size_t (*)(uint8_t* data, size_t size, size_t most);

class Mutator {
 public:
  Mutator(const Schema& schema, ChangeBytes change_bytes) : schema_(schema), change_bytes_(change_bytes) {}

  // Remembers parts of a file, to put them into others.
  void learn(const Table& root);
  // One to four changes.
  void change(Table* root, unsigned seed);

 private:
  struct Slot {
    Table* table;
    const reflection::Field* field;
  };
  // A bounded sample of what was seen.
  template <typename T>
  struct Sample {
    static constexpr size_t kMost = 48;
    std::vector<T> items;
    size_t seen = 0;
  };

  template <typename T>
  void keep(T&& item, Sample<std::decay_t<T>>* sample);
  size_t below(size_t n) { return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(dice_); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(dice_) < p; }
  void learn(const Table& table, int depth);
  void gather(Table* table, int depth);
  void change(const Slot& slot);
  uint64_t number(const reflection::Type& type, reflection::BaseType base, uint64_t before);
  void change_scalar(Value* value, const reflection::Type& type);
  void change_numbers(Value* value, const Slot& slot);
  void change_list(Value* value, const Slot& slot);
  void change_text(std::string* text, const Slot* slot);
  void change_json(std::string* text);
  void change_union(const Slot& slot);
  std::unique_ptr<Table> other(const reflection::Object* type);

  const Schema& schema_;
  const ChangeBytes change_bytes_;
  std::mt19937 dice_;
  std::unordered_map<const reflection::Object*, Sample<Table>> tables_;
  std::unordered_map<const reflection::Field*, Sample<std::string>> texts_, vectors_;
  std::unordered_map<const reflection::Field*, Sample<uint64_t>> scalars_;
  // Of the file that is being changed.
  std::vector<Slot> present_, absent_;
  std::vector<const std::string*> strings_;
  size_t tensors_ = 0;
};

}  // namespace minnow::fuzz
