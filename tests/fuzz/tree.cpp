#include "tree.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "flatbuffers/reflection.h"
#include "mnn_generated.h"

namespace minnow::fuzz {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::uoffset_t;

constexpr int kMostDepth = 64;

bool named(const reflection::Object& object, const char* name) {
  return std::strcmp(object.name()->c_str(), name) == 0;
}

std::unique_ptr<Table> read_table(const Schema& schema, const flatbuffers::Table& from, const reflection::Object* type);

Value read_vector(const Schema& schema, const uint8_t* at, const reflection::Type& type) {
  Value value;
  const auto* sizes = reinterpret_cast<const flatbuffers::VectorOfAny*>(at);
  if (is_scalar(type.element())) {
    value.bytes.assign(reinterpret_cast<const char*>(sizes->Data()), sizes->size() * size_of(type.element()));
    return value;
  }
  const auto& offsets = *reinterpret_cast<const flatbuffers::Vector<Offset<flatbuffers::Table>>*>(at);
  for (uoffset_t i = 0; i < offsets.size(); ++i) {
    Value item;
    if (type.element() == reflection::String) {
      item.bytes = reinterpret_cast<const flatbuffers::String*>(offsets.Get(i))->str();
    } else {
      item.table = read_table(schema, *offsets.Get(i), schema.object(type.index()));
    }
    value.items.push_back(std::move(item));
  }
  return value;
}

std::unique_ptr<Table> read_nested(const Schema& schema, const std::string& bytes, const reflection::Object* type) {
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(aligned.data()), bytes.size());
  if (!verifier.VerifyBuffer<wire::Extra>(nullptr)) return nullptr;
  return read_table(schema, *flatbuffers::GetRoot<flatbuffers::Table>(aligned.data()), type);
}

std::unique_ptr<Table> read_table(const Schema& schema, const flatbuffers::Table& from,
                                  const reflection::Object* type) {
  auto table = std::make_unique<Table>(type);
  for (const reflection::Field* field : *type->fields()) {
    // The verifier skips deprecated fields: what lies in their slots may point anywhere.
    if (field->deprecated() || !from.CheckField(field->offset())) continue;
    const reflection::BaseType base = field->type()->base_type();
    Value value;
    if (is_scalar(base)) {
      std::memcpy(&value.bits, from.GetAddressOf(field->offset()), size_of(base));
    } else {
      const auto* at = from.GetPointer<const uint8_t*>(field->offset());
      if (base == reflection::String) {
        value.bytes = reinterpret_cast<const flatbuffers::String*>(at)->str();
      } else if (base == reflection::Vector) {
        value = read_vector(schema, at, *field->type());
        if (const auto* inner = schema.nested(*type, *field)) value.table = read_nested(schema, value.bytes, inner);
      } else if (base == reflection::Obj) {
        value.table =
            read_table(schema, *reinterpret_cast<const flatbuffers::Table*>(at), schema.object(field->type()->index()));
      } else {
        const auto tag = from.GetField<uint8_t>(schema.tag(*type, *field)->offset(), 0);
        const reflection::Object* member = schema.member(*field, tag);
        if (member == nullptr) continue;
        value.table = read_table(schema, *reinterpret_cast<const flatbuffers::Table*>(at), member);
      }
    }
    table->fields.emplace(field, std::move(value));
  }
  return table;
}

uoffset_t write_table(const Schema& schema, FlatBufferBuilder& to, const Table& table, int depth);

uoffset_t write_vector(const Schema& schema, FlatBufferBuilder& to, const Value& value, const reflection::Type& type,
                       int depth) {
  if (is_scalar(type.element())) {
    const size_t size = size_of(type.element());
    uint8_t* data = nullptr;
    const uoffset_t offset = to.CreateUninitializedVector(value.bytes.size() / size, size, &data);
    std::memcpy(data, value.bytes.data(), value.bytes.size() / size * size);
    return offset;
  }
  std::vector<Offset<void>> offsets;
  for (const Value& item : value.items) {
    if (type.element() == reflection::String) {
      offsets.emplace_back(to.CreateString(item.bytes).o);
    } else {
      offsets.emplace_back(write_table(schema, to, *item.table, depth));
    }
  }
  return to.CreateVector(offsets).o;
}

uoffset_t write_table(const Schema& schema, FlatBufferBuilder& to, const Table& table, int depth) {
  std::map<const reflection::Field*, uoffset_t> offsets;
  for (const auto& [field, value] : table.fields) {
    const reflection::BaseType base = field->type()->base_type();
    if (is_scalar(base) || depth == kMostDepth) continue;
    if (base == reflection::String) {
      offsets[field] = to.CreateString(value.bytes).o;
    } else if (base == reflection::Vector && value.table != nullptr) {
      FlatBufferBuilder inner;
      inner.Finish(Offset<void>(write_table(schema, inner, *value.table, depth + 1)));
      offsets[field] = to.CreateVector(inner.GetBufferPointer(), inner.GetSize()).o;
    } else if (base == reflection::Vector) {
      offsets[field] = write_vector(schema, to, value, *field->type(), depth + 1);
    } else if (value.table != nullptr) {
      offsets[field] = write_table(schema, to, *value.table, depth + 1);
    }
  }
  const uoffset_t start = to.StartTable();
  for (const auto& [field, value] : table.fields) {
    const auto at = static_cast<flatbuffers::voffset_t>(field->offset());
    switch (is_scalar(field->type()->base_type()) ? size_of(field->type()->base_type()) : 0) {
      case 1:
        to.AddElement<uint8_t>(at, static_cast<uint8_t>(value.bits), 0);
        break;
      case 2:
        to.AddElement<uint16_t>(at, static_cast<uint16_t>(value.bits), 0);
        break;
      case 4:
        to.AddElement<uint32_t>(at, static_cast<uint32_t>(value.bits), 0);
        break;
      case 8:
        to.AddElement<uint64_t>(at, value.bits, 0);
        break;
      default:
        if (const auto it = offsets.find(field); it != offsets.end()) to.AddOffset(at, Offset<void>(it->second));
    }
  }
  return to.EndTable(start);
}

}  // namespace

Value::Value(const Value& other)
    : bits(other.bits),
      bytes(other.bytes),
      items(other.items),
      table(other.table == nullptr ? nullptr : std::make_unique<Table>(*other.table)) {}

size_t size_of(reflection::BaseType type) { return flatbuffers::GetTypeSize(type); }

const Schema& Schema::get() {
  static const Schema& schema = *new Schema;
  return schema;
}

Schema::Schema() {
  const char* elsewhere = std::getenv("MINNOW_FUZZ_SCHEMA");  // where the program has been moved to another machine
  const char* path = elsewhere == nullptr ? MINNOW_FUZZ_SCHEMA : elsewhere;
  std::ifstream file(path, std::ios::binary);
  text_.assign(std::istreambuf_iterator<char>(file), {});
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(text_.data()), text_.size());
  if (!reflection::VerifySchemaBuffer(verifier)) {
    std::fprintf(stderr, "%s is no binary schema; build the target again\n", path);
    std::abort();
  }
  schema_ = reflection::GetSchema(text_.data());
  for (const reflection::Object* object : *schema_->objects()) {
    if (named(*object, "minnow.wire.ExtraInfo")) extra_info_ = object;
    if (named(*object, "minnow.wire.Extra")) extra_ = object;
  }
}

const reflection::Object* Schema::object(int32_t index) const {
  return schema_->objects()->Get(static_cast<uoffset_t>(index));
}

const reflection::Enum* Schema::enumeration(int32_t index) const {
  return schema_->enums()->Get(static_cast<uoffset_t>(index));
}

const reflection::Object* Schema::member(const reflection::Field& field, uint64_t tag) const {
  const reflection::EnumVal* row = enumeration(field.type()->index())->values()->LookupByKey(static_cast<int64_t>(tag));
  return row == nullptr || tag == 0 ? nullptr : object(row->union_type()->index());
}

const reflection::Field* Schema::tag(const reflection::Object& object, const reflection::Field& field) const {
  return object.fields()->LookupByKey((field.name()->str() + "_type").c_str());
}

const reflection::Object* Schema::nested(const reflection::Object& object, const reflection::Field& field) const {
  return &object == extra_info_ && field.name()->str() == "buffer" ? extra_ : nullptr;
}

std::unique_ptr<Table> Schema::read(const uint8_t* data, size_t size) const {
  flatbuffers::Verifier verifier(data, size);
  if (size < 8 || !wire::VerifyNetBuffer(verifier)) return nullptr;
  return read_table(*this, *flatbuffers::GetRoot<flatbuffers::Table>(data), schema_->root_table());
}

std::string Schema::write(const Table& root) const {
  FlatBufferBuilder to;
  to.ForceDefaults(true);
  to.Finish(Offset<void>(write_table(*this, to, root, 0)));
  return {reinterpret_cast<const char*>(to.GetBufferPointer()), to.GetSize()};
}

}  // namespace minnow::fuzz
