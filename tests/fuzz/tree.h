// A .mnn file as a tree that can be changed anywhere and written again. The fields are those of the schema, which is
// read from its binary form (flatc --schema --binary): no table is listed here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flatbuffers/reflection_generated.h"

namespace minnow::fuzz {

struct Table;

// One field, or one element of a vector of strings or tables.
struct Value {
  Value() = default;
  Value(const Value& other);
  Value(Value&&) = default;
  Value& operator=(Value&&) = default;

  uint64_t bits = 0;             // of a scalar
  std::string bytes;             // of a string, or of a vector of scalars
  std::vector<Value> items;      // of a vector of strings or tables
  std::unique_ptr<Table> table;  // a table or a member of a union
};

struct Table {
  explicit Table(const reflection::Object* kind) : type(kind) {}

  const reflection::Object* type;
  std::map<const reflection::Field*, Value> fields;  // those that are there
};

class Schema {
 public:
  static const Schema& get();  // of the file MINNOW_FUZZ_SCHEMA

  const reflection::Object* object(int32_t index) const;
  const reflection::Enum* enumeration(int32_t index) const;
  // The table that a union holds if its tag is this; null for no table.
  const reflection::Object* member(const reflection::Field& field, uint64_t tag) const;
  // The field before a union, which says what it holds.
  const reflection::Field* tag(const reflection::Object& object, const reflection::Field& field) const;
  // Metadata is a FlatBuffer of its own in a vector of bytes: what that holds; null for all other fields.
  const reflection::Object* nested(const reflection::Object& object, const reflection::Field& field) const;

  std::unique_ptr<Table> read(const uint8_t* data, size_t size) const;  // null if it is no sound file
  std::string write(const Table& root) const;

 private:
  Schema();

  std::string text_;
  const reflection::Schema* schema_;
  const reflection::Object *extra_info_ = nullptr, *extra_ = nullptr;
};

size_t size_of(reflection::BaseType type);
inline bool is_scalar(reflection::BaseType type) { return type >= reflection::UType && type <= reflection::Double; }

}  // namespace minnow::fuzz
