// Weights of ops for which the format has no compressed form: a file has them as packed bytes, and nodes that make
// floats of these (optimizer/quantize/expand.py). Here they become constants that stay packed in memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/core/elements.h"
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// What is stored in a file for each group of numbers: a row of packed bytes, a scale, and what the code 0 stands for.
struct Stored {
  FileBytes bytes, scale, least;
  DType type = DType::kF32;  // of scales
  int64_t groups = 0, length = 0, bits = 8, row_bytes = 0;
};

// A byte has the codes of one place in each part of a row, the first part in its lowest bits.
class PackedRows final : public QuantizedMatrix {
 public:
  PackedRows(const Stored& stored, const Shape& shape) : stored_(stored) {
    rows = stored.groups % shape[0] == 0 ? shape[0] : stored.groups;
    columns = shape.count() / rows;
    block = stored.length;
    bits = static_cast<int>(stored.bits);
    has_offset = offset_of_least = stored.least.data != nullptr;
    half_scales = stored.type == DType::kF16;
  }

  void codes(int64_t first, int64_t count, int8_t* to) const override {
    const int least = -(1 << (bits - 1)), most = (1 << bits) - 1;
    for (const int64_t end = first + count; first < end;) {
      const int64_t at = first % block, place = at % stored_.row_bytes, part = at / stored_.row_bytes;
      const int64_t n = std::min({end - first, stored_.row_bytes - place, block - at});
      const auto* from =
          reinterpret_cast<const uint8_t*>(stored_.bytes.data) + first / block * stored_.row_bytes + place;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int8_t>((from[i] >> (part * bits) & most) + least);
      first += n;
      to += n;
    }
  }
  void release(int64_t count) const override {
    if (stored_.bytes.file != nullptr) stored_.bytes.file->release(count * bits / 8);
  }
  void stored_scales(int64_t first, int64_t count, float* scale, float* offset) const override {
    read(stored_.scale, first, count, scale);
    has_offset ? read(stored_.least, first, count, offset) : static_cast<void>(std::fill_n(offset, count, 0.0f));
  }

 private:
  void read(const FileBytes& bytes, int64_t first, int64_t count, float* to) const {
    constexpr int64_t kPart = 256;
    const auto size = static_cast<int64_t>(dtype_size(stored_.type));
    for (int64_t at = 0; at < count; at += kPart) {
      const int64_t n = std::min(kPart, count - at);
      uint32_t numbers[kPart];  // which need not be aligned in the file
      std::memcpy(numbers, bytes.data + (first + at) * size, static_cast<size_t>(n * size));
      convert_elements(stored_.type, numbers, DType::kF32, to + at, n);
    }
  }

  Stored stored_;
};

class Finder {
 public:
  explicit Finder(Graph* graph) : graph_(*graph), makers_(graph->values.size(), -1), reads_(graph->values.size()) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (int v : graph_.nodes[i].out)
        if (v >= 0) makers_[static_cast<size_t>(v)] = static_cast<int>(i);
      for (int v : graph_.nodes[i].in)
        if (v >= 0) ++reads_[static_cast<size_t>(v)];
    }
    for (int v : graph_.outputs) ++reads_[static_cast<size_t>(v)];
  }

  void run() {
    std::map<int, Stored> found;
    for (const Node& node : graph_.nodes) {
      Stored stored;
      if ((node.op == "Mul" || node.op == "Add") && match(node.out[0], &stored)) found[node.out[0]] = std::move(stored);
    }
    for (const auto& [v, stored] : found) keep(v, Shape{stored.groups, stored.length}, stored);
    // What reads them in another shape.
    for (const Node& node : graph_.nodes) {
      const auto of = node.op == "Reshape" && node.in.size() == 2 ? found.find(node.in[0]) : found.end();
      Shape shape;
      if (of != found.end() && shape_of(node.in[1], of->second, &shape)) keep(node.out[0], shape, of->second);
    }
    const auto is_dropped = [](const Node& node) { return node.op.empty(); };
    graph_.nodes.erase(std::remove_if(graph_.nodes.begin(), graph_.nodes.end(), is_dropped), graph_.nodes.end());
  }

 private:
  const Node* made_by(int v, const char* op, size_t inputs) const {
    const int node = v < 0 ? -1 : makers_[static_cast<size_t>(v)];
    if (node < 0) return nullptr;
    const Node& found = graph_.nodes[static_cast<size_t>(node)];
    return found.op == op && found.in.size() == inputs && found.out.size() == 1 ? &found : nullptr;
  }
  const Constant* constant(int v) const {
    return v < 0 ? nullptr : graph_.values[static_cast<size_t>(v)].constant.get();
  }
  bool is_number(int v, float number) const {
    std::shared_ptr<const Tensor> held;
    const Constant* c = constant(v);
    return c != nullptr && c->type().dtype == DType::kF32 && c->type().count() == 1 && c->acquire(&held).ok() &&
           held->as<float>()[0] == number;
  }
  // The integers of a constant list.
  std::vector<int64_t> ints(int v) const {
    std::shared_ptr<const Tensor> held;
    const Constant* c = constant(v);
    if (c == nullptr || c->type().shape.rank() != 1 ||
        (c->type().dtype != DType::kI32 && c->type().dtype != DType::kI64) || !c->acquire(&held).ok())
      return {};
    std::vector<int64_t> list(static_cast<size_t>(c->type().count()));
    convert_elements(c->type().dtype, held->data, DType::kI64, list.data(), c->type().count());
    return list;
  }
  // The shape that a constant list names, of as many numbers. A row of a matrix has whole groups.
  bool shape_of(int v, const Stored& of, Shape* shape) const {
    const std::vector<int64_t> dims = ints(v);
    int64_t left = of.groups * of.length;
    if (dims.empty() || dims.size() > kMaxRank) return false;
    for (int64_t dim : dims) {
      if (dim < 1 || left % dim != 0) return false;
      left /= dim;
      shape->push_back(dim);
    }
    return left == 1 && (of.groups % dims[0] == 0 || dims.size() > 2);
  }

  // Floats of constant bytes, in rows.
  bool match_bytes(int v, Stored* to) const {
    const Node* cast = made_by(v, "Cast", 1);
    const Constant* bytes = cast == nullptr ? nullptr : constant(cast->in[0]);
    if (bytes == nullptr || cast->attrs.get("to", DType::kU8) != DType::kF32) return false;
    DType type;
    to->bytes = bytes->stored(&type);
    if (to->bytes.data == nullptr || bytes->type().dtype != DType::kU8 || bytes->type().shape.rank() != 2) return false;
    to->groups = bytes->type().shape[0];
    to->length = to->row_bytes = bytes->type().shape[1];
    return bytes->type().count() > 0;
  }
  // Their parts, one behind the other: the upper ones are what is left of a division by a power of two.
  bool match_parts(int v, Stored* to) const {
    if (match_bytes(v, to)) return true;
    for (const size_t parts : {2, 4}) {
      const Node* all = made_by(v, "Concat", parts);
      if (all == nullptr) all = made_by(v, "mnn.Concat", parts);
      if (all == nullptr || (all->attrs.i("axis") != 1 && all->attrs.i("axis") != -1)) continue;
      int rest = all->in[0];
      for (size_t part = 1; part < parts; ++part) {
        const float unit = std::ldexp(1.0f, static_cast<int>(8 / parts * part));
        const Node *less = made_by(rest, "Sub", 2), *times = less == nullptr ? nullptr : made_by(less->in[1], "Mul", 2);
        const Node *floor = made_by(all->in[part], "Floor", 1),
                   *divided = floor == nullptr ? nullptr : made_by(floor->in[0], "Mul", 2);
        if (times == nullptr || divided == nullptr || times->in[0] != all->in[part] || !is_number(times->in[1], unit) ||
            divided->in[0] != less->in[0] || !is_number(divided->in[1], 1 / unit))
          return false;
        rest = less->in[0];
      }
      if (!match_bytes(rest, to)) return false;
      to->bits = static_cast<int64_t>(8 / parts);
      to->length *= static_cast<int64_t>(parts);
      return true;
    }
    return false;
  }
  bool match_codes(int v, Stored* to) const {
    const Node* first = made_by(v, "Gather", 2);
    if (first == nullptr) return match_parts(v, to);
    if ((first->attrs.i("axis") != 1 && first->attrs.i("axis") != -1) || !match_parts(first->in[0], to)) return false;
    const std::vector<int64_t> places = ints(first->in[1]);
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] != static_cast<int64_t>(i)) return false;
    const auto length = static_cast<int64_t>(places.size());
    if (length < 1 || length > to->length) return false;
    to->length = length;
    return true;
  }
  // One number for each group.
  bool match_scales(int v, const Stored& stored, DType* type, FileBytes* to) const {
    const Constant* c = constant(v);
    if (c == nullptr || c->type().dtype != DType::kF32 || !(c->type().shape == Shape{stored.groups, 1})) return false;
    *to = c->stored(type);
    return to->data != nullptr && (*type == DType::kF32 || *type == DType::kF16);
  }
  bool match(int v, Stored* to) const {
    const Node *sum = made_by(v, "Add", 2), *product = made_by(sum == nullptr ? v : sum->in[0], "Mul", 2);
    if (product == nullptr) return false;
    const Node* around = sum == nullptr ? made_by(product->in[0], "Sub", 2) : nullptr;
    if (sum == nullptr && around == nullptr) return false;
    if (!match_codes(around == nullptr ? product->in[0] : around->in[0], to) ||
        !match_scales(product->in[1], *to, &to->type, &to->scale))
      return false;
    if (sum == nullptr) return is_number(around->in[1], static_cast<float>(1 << (to->bits - 1)));
    DType type = to->type;
    return match_scales(sum->in[1], *to, &type, &to->least) && type == to->type;
  }

  void keep(int v, const Shape& shape, const Stored& stored) {
    graph_.values[static_cast<size_t>(v)].constant =
        Constant::of_quantized({DType::kF32, Layout::kPlain, shape}, std::make_shared<PackedRows>(stored, shape),
                               stored.bytes, {stored.scale, stored.least});
    drop(v);
  }
  // The node that makes a value, and those that only it has read.
  void drop(int v) {
    Node& node = graph_.nodes[static_cast<size_t>(makers_[static_cast<size_t>(v)])];
    makers_[static_cast<size_t>(v)] = -1;
    node.op.clear();
    for (int in : node.in)
      if (--reads_[static_cast<size_t>(in)] == 0 && makers_[static_cast<size_t>(in)] >= 0) drop(in);
  }

  Graph& graph_;
  std::vector<int> makers_, reads_;
};

}  // namespace

void keep_weights_packed(Graph* graph) { Finder(graph).run(); }

}  // namespace minnow
