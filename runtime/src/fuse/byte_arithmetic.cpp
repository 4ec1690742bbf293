// Sums and products of two tensors of bytes, with what makes numbers of them and bytes again, become ByteArithmetic.
#include <cmath>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/layout.h"

namespace minnow {
namespace {

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// A function of one tensor of bytes: (x - zero) * scale + shift.
struct Term {
  int x = -1;
  double zero = 0, scale = 1, shift = 0;
};

class Matcher {
 public:
  explicit Matcher(const PlanGraph& graph) : graph_(graph) {}

  // The node that quantizes, in the form of ByteArithmetic; false where it is something else.
  bool match(int id, std::vector<int>* in, std::shared_ptr<const Attrs>* attrs) {
    if (graph_.is(id, "Requantize")) return match_fixed(id, in, attrs);
    if (!graph_.is(id, "QuantizeLinear") || !graph_.is_looked_at(id)) return false;
    const PlanNode& node = graph_.node(id);
    const DType to = graph_.type(node.out[0]).dtype;
    double step = 0, zero = 0, factor = 1, more = 0;
    if (!is_byte(to) || node.attrs->has("precision") || !number(node.in[1], DType::kF32, &step)) return false;
    if (node.in.size() > 2 && node.in[2] >= 0 && !number(node.in[2], to, &zero)) return false;
    if (std::abs(step) < kLeast || std::abs(step) > 1 / kLeast) return false;
    int v = node.in[0];
    if (graph_.type(v).dtype != DType::kF32) return false;
    // Products of integers end in a factor and a zero point.
    if (with_number(v, "Add", DType::kF32, &more, &v)) with_number(v, "Mul", DType::kF32, &factor, &v);
    int made = graph_.maker(v);
    if (graph_.is(made, "Cast")) {
      if (!alone(v)) return false;
      v = graph_.node(made).in[0];
      made = graph_.maker(v);
      if (graph_.type(v).dtype != DType::kI32 || !graph_.is(made, "Mul")) return false;
    }
    const bool product = graph_.is(made, "Mul");
    if (!alone(v) || (!product && !graph_.is(made, "Add"))) return false;
    Term a, b;
    const std::vector<int>& terms = graph_.node(made).in;
    if (!term(terms[0], &a) || !term(terms[1], &b)) return false;
    if (a.shift != 0) std::swap(a, b);
    if (a.shift != 0) return false;
    // The first one is to be as large as the result.
    const Shape& y = graph_.shape(node.out[0]);
    if (b.shift == 0 && graph_.shape(a.x) != y) std::swap(a, b);
    for (const double n : {a.scale, b.scale, b.shift, factor, more})
      if (!(std::abs(n) < 1 / kLeast)) return false;
    *in = {a.x, -1, -1, -1, b.x};
    auto own = std::make_shared<Attrs>(make_attrs({{"product", product}, {"to", to}}));
    own->set("numbers", std::vector<double>{a.zero, a.scale, b.zero, b.scale, b.shift, factor, more, step, zero});
    *attrs = std::move(own);
    return true;
  }

 private:
  static constexpr double kLeast = 1e-8;

  // The same for a product of whole numbers.
  bool match_fixed(int id, std::vector<int>* in, std::shared_ptr<const Attrs>* attrs) {
    const PlanNode& node = graph_.node(id);
    double multiplier = 0, shift = 0;
    if (!is_byte(graph_.type(node.out[0]).dtype) || node.in.size() != 3 ||
        !number(node.in[1], DType::kI32, &multiplier) || !number(node.in[2], DType::kI32, &shift))
      return false;
    const int made = graph_.maker(node.in[0]);
    if (!graph_.is(made, "Mul") || !alone(node.in[0]) || std::abs(shift) > 31) return false;
    Term a, b;
    const std::vector<int>& terms = graph_.node(made).in;
    if (!difference(terms[0], &a) || !difference(terms[1], &b)) return false;
    if (graph_.shape(a.x) != graph_.shape(node.out[0])) std::swap(a, b);
    *in = {a.x, -1, -1, -1, b.x};
    auto own = std::make_shared<Attrs>(*node.attrs);
    own->set("numbers", std::vector<double>{a.zero, 1, b.zero, 1, 0, 1, 0, 1, 0});
    own->set("multiplier", static_cast<int64_t>(multiplier));
    own->set("shift", static_cast<int64_t>(shift));
    *attrs = std::move(own);
    return true;
  }

  // Bytes less their zero point, from a table.
  bool difference(int v, Term* t) const {
    const int made = graph_.maker(v);
    if (!graph_.is(made, "LookUp")) return false;
    t->x = graph_.node(made).in[0];
    const int table = graph_.node(made).in[1];
    const DType x = graph_.type(t->x).dtype;
    const std::shared_ptr<const Tensor> found = graph_.contents(table);
    if (!is_byte(x) || graph_.type(table).dtype != DType::kI32 || found == nullptr) return false;
    const int32_t* numbers = found->as<int32_t>();
    t->zero = (x == DType::kI8 ? -128.0 : 0.0) - numbers[0];
    if (std::abs(t->zero) > 255) return false;
    for (int k = 1; k < 256; ++k)
      if (numbers[k] != numbers[0] + k) return false;
    return true;
  }

  bool alone(int v) const { return graph_.only_reader(v) >= 0; }

  // Whether a value is one number of this type that is known.
  bool number(int v, DType dtype, double* out) const {
    if (v < 0 || graph_.type(v).dtype != dtype) return false;
    const std::optional<double> one = graph_.number(v);
    *out = one.value_or(*out);
    return one.has_value();
  }

  // Whether an op of a value and a number makes `v`, and nothing else reads that: gives both.
  bool with_number(int v, const char* op, DType dtype, double* n, int* other) const {
    const int made = graph_.maker(v);
    if (!graph_.is(made, op) || !alone(v)) return false;
    const std::vector<int>& in = graph_.node(made).in;
    const bool commutes = !graph_.is(made, "Sub");
    for (size_t i = commutes ? 0 : 1; i < 2; ++i)
      if (graph_.shape(in[1 - i]) == graph_.shape(v) && number(in[i], dtype, n)) {
        *other = in[1 - i];
        return true;
      }
    return false;
  }

  // Floats, or integers without a scale.
  bool term(int v, Term* t) const {
    with_number(v, "Add", DType::kF32, &t->shift, &v);
    int made = graph_.maker(v);
    if (graph_.is(made, "DequantizeLinear")) {
      const PlanNode& node = graph_.node(made);
      t->x = node.in[0];
      const DType x = graph_.type(t->x).dtype;
      if (!is_byte(x) || graph_.type(v).dtype != DType::kF32 || !number(node.in[1], DType::kF32, &t->scale))
        return false;
      return node.in.size() < 3 || node.in[2] < 0 || number(node.in[2], x, &t->zero);
    }
    with_number(v, "Mul", DType::kF32, &t->scale, &v);
    with_number(v, "Sub", DType::kI32, &t->zero, &v);
    made = graph_.maker(v);
    if (!graph_.is(made, "Cast") || std::abs(t->zero) > 255) return false;
    t->x = graph_.node(made).in[0];
    return is_byte(graph_.type(t->x).dtype);
  }

  const PlanGraph& graph_;
};

}  // namespace

void fuse_byte_arithmetic(PlanGraph& graph) {
  bool found = false;
  for (int i = 0; i < graph.size(); ++i) {
    std::vector<int> in;
    std::shared_ptr<const Attrs> attrs;
    if (!Matcher(graph).match(i, &in, &attrs)) continue;
    graph.become(i, "ByteArithmetic", std::move(in), std::move(attrs));
    found = true;
  }
  if (found) graph.drop_unread();
}

}  // namespace minnow
