#include "runtime/src/lower/lowering.h"

#include <algorithm>
#include <map>

namespace minnow {
namespace {

constexpr int64_t kMostNodes = (1 << 15) - 2;

std::map<std::string, Lowering>& lowerings() {
  static std::map<std::string, Lowering> rows;
  return rows;
}

}  // namespace

LoweringRegistrar::LoweringRegistrar(const Lowering& lowering) { lowerings().emplace(lowering.name, lowering); }

const Lowering* find_lowering(const std::string& name) {
  const auto it = lowerings().find(name);
  return it == lowerings().end() ? nullptr : &it->second;
}

Attrs make_attrs(AttrList list) {
  Attrs attrs;
  for (const AttrArgument& attr : list) attrs.set(attr.name, attr.value());
  return attrs;
}

Attr AttrArgument::value() const {
  switch (kind_) {
    case kInt:
      return at_.i;
    case kFloat:
      return at_.f;
    case kBool:
      return at_.b;
    case kDType:
      return at_.dtype;
    case kText:
      return std::string(at_.text);
    default:
      return *at_.ints;
  }
}

Status Expansion::ints(int i, std::vector<int64_t>* out) {
  if (!has(i)) return fail(Code::kFormat, "input %d is missing", i);
  const PlanValue& value = stage_.values[static_cast<size_t>(in(i))];
  asked_.push_back(in(i));
  if (value.constant == nullptr) return fail(Code::kNeedsValue, "needs the contents of input %d", i);
  std::shared_ptr<const Tensor> tensor;
  const InterruptScope scope(&watch_);
  MINNOW_RETURN_IF_ERROR(value.constant->acquire(&tensor));
  const TensorType* type = &value.type;
  return InferContext(attrs(), {type}, {tensor.get()}, nullptr).ints(0, out);
}

Status Expansion::may_add(int64_t nodes) const {
  if (nodes <= kMostNodes - static_cast<int64_t>(nodes_.size())) return ok();
  return fail(Code::kUnsupported, "it comes to more than %lld nodes", static_cast<long long>(kMostNodes));
}

int Expansion::add_constant(const TensorType& type, const std::function<void(char*)>& fill) {
  Buffer buffer;
  if (status.ok()) status = Buffer::make(type.bytes(), &buffer, &watch_.memory);
  if (!status.ok()) return -1;
  fill(buffer.data());
  PlanValue known;
  known.known = true;
  known.is_static = true;
  known.type = type;
  known.constant = Constant::owned(type, std::move(buffer));
  stage_.values.push_back(std::move(known));
  return static_cast<int>(stage_.values.size()) - 1;
}

int Expansion::zero(DType dtype) {
  return add_constant({dtype, Layout::kPlain, Shape()}, [&](char* to) { std::fill_n(to, dtype_size(dtype), 0); });
}

int Expansion::floats(const std::vector<float>& values) {
  return add_constant({DType::kF32, Layout::kPlain, Shape{static_cast<int64_t>(values.size())}},
                      [&](char* to) { std::copy(values.begin(), values.end(), reinterpret_cast<float*>(to)); });
}

int Expansion::ints(const std::vector<int64_t>& values) {
  return add_constant({DType::kI64, Layout::kPlain, Shape{static_cast<int64_t>(values.size())}},
                      [&](char* to) { std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(to)); });
}

PlanNode& Expansion::append(const char* op, Values inputs, Attrs attrs) {
  if (status.ok()) status = watch_.go_on();
  if (status.ok()) status = may_add(1);
  if (status.ok() && !node_.has_parts())
    status = fail(Code::kUnsupported, "it is computed by others that are computed by others, too often");
  if (!status.ok()) nodes_.clear();  // they will not be used: what is added from now on replaces the one before
  PlanNode node;
  node.op = find_op(op);
  node.lowering = node.op == nullptr ? find_lowering(op) : nullptr;
  if (node.op == nullptr && node.lowering == nullptr && status.ok())
    status = fail(Code::kUnsupported, MINNOW_THIS_BUILD " has no kernel for %s", op);
  node.attrs = std::make_shared<const Attrs>(std::move(attrs));
  node.source = node_.source;
  // Parts of parts: the numbers only have to differ within one source. Those from 1 << 15 on are of casts of operands.
  if (status.ok()) node.part = node_.part_number(static_cast<int64_t>(nodes_.size()) + 1);
  node.in.assign(inputs.begin(), inputs.end());
  nodes_.push_back(std::move(node));
  return nodes_.back();
}

int Expansion::add(const char* op, Values inputs, Attrs attrs) {
  append(op, inputs, std::move(attrs));
  return another_output();
}

int Expansion::another_output() {
  if (!status.ok()) return -1;
  stage_.values.emplace_back();
  nodes_.back().out.push_back(static_cast<int>(stage_.values.size()) - 1);
  return nodes_.back().out.back();
}

int Expansion::add(const char* op, Values inputs, AttrList attrs) { return add(op, inputs, make_attrs(attrs)); }

void Expansion::finish(const char* op, Values inputs, Attrs attrs) {
  append(op, inputs, std::move(attrs)).out = node_.out;
}

void Expansion::finish(const char* op, Values inputs, AttrList attrs) { finish(op, inputs, make_attrs(attrs)); }

void Expansion::finish(int output, const char* op, Values inputs, Attrs attrs) {
  append(op, inputs, std::move(attrs)).out = {out(output)};
}

}  // namespace minnow
