// Lowering of ops that make vectors of numbers, and of special functions.
#include <algorithm>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kMostNumbers = int64_t{1} << 22;

// From the first to the last number, both included.
Status expand_lin_space(Expansion& e) {
  Ints count;
  MINNOW_RETURN_IF_ERROR(e.ints(2, &count));
  if (count.size() != 1 || count[0] < 1 || count[0] > kMostNumbers)
    return fail(Code::kFormat, "%lld numbers", static_cast<long long>(count.empty() ? 0 : count[0]));
  const int first = e.add("Reshape", {e.in(0), e.ints({})}), last = e.add("Reshape", {e.in(1), e.ints({})});
  std::vector<float> parts(static_cast<size_t>(count[0]));
  const float whole = static_cast<float>(std::max<int64_t>(count[0] - 1, 1));
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = static_cast<float>(i) / whole;
  e.finish("Add", {first, e.add("Mul", {e.add("Sub", {last, first}), e.floats(parts)})});
  return ok();
}
MINNOW_LOWERING("mnn.LinSpace", expand_lin_space);

// Places in a tensor of a shape, of which each axis gets a row.
Status expand_unravel_index(Expansion& e) {
  Ints dims;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &dims));
  int64_t step = 1;
  for (int64_t n : dims) {
    if (n < 1 || step > (int64_t{1} << 40) / n) return fail(Code::kFormat, "a size of %lld", static_cast<long long>(n));
    step *= n;
  }
  if (dims.empty()) return fail(Code::kFormat, "a shape without sizes");
  const int places = e.add("Cast", {e.in(0)}, {{"to", DType::kI64}});
  std::vector<int> rows;
  for (int64_t n : dims) {
    step /= n;
    const int row = e.add("Mod", {e.add("Div", {places, e.ints({step})}), e.ints({n})}, {{"fmod", false}});
    rows.push_back(e.add("Unsqueeze", {row}, {{"axes", Ints{0}}}));
  }
  const int all = e.add("Concat", rows, {{"axis", int64_t{0}}});
  e.finish("Cast", {all}, {{"to", DType::kI32}});
  return ok();
}
MINNOW_LOWERING("mnn.UnravelIndex", expand_unravel_index);

Status expand_segment(Expansion& e) {
  Ints numbers;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &numbers));
  if (e.rank(0) < 1 || e.shape(0)[0] != static_cast<int64_t>(numbers.size()) || numbers.empty())
    return fail(Code::kFormat, "%zu numbers for rows of shape %s", numbers.size(), e.shape(0).str().c_str());
  const int64_t most = *std::max_element(numbers.begin(), numbers.end());
  if (*std::min_element(numbers.begin(), numbers.end()) < 0 || most >= kMostNumbers)
    return fail(Code::kFormat, "a row of number %lld", static_cast<long long>(most));
  std::vector<float> counts(static_cast<size_t>(most) + 1);
  for (int64_t n : numbers) ++counts[static_cast<size_t>(n)];
  // The first row of each number is what the others are combined with.
  std::vector<int64_t> first(counts.size(), -1), others;
  std::vector<int64_t> to;
  for (size_t i = 0; i < numbers.size(); ++i) {
    int64_t& place = first[static_cast<size_t>(numbers[i])];
    if (place < 0) {
      place = static_cast<int64_t>(i);
    } else {
      others.push_back(static_cast<int64_t>(i));
      to.push_back(numbers[i]);
    }
  }
  std::vector<float> there(counts.size(), 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (first[i] < 0) there[i] = 0;
    first[i] = std::max<int64_t>(first[i], 0);
    counts[i] = std::max(counts[i], 1.0f);
  }
  int rows = e.add("Gather", {e.in(0), e.ints(first)}, {{"axis", int64_t{0}}});
  if (!others.empty()) {
    const int places = e.add("Unsqueeze", {e.ints(to)}, {{"axes", Ints{1}}});
    const int updates = e.add("Gather", {e.in(0), e.ints(others)}, {{"axis", int64_t{0}}});
    rows = e.add("ScatterND", {rows, places, updates}, {{"reduction", e.attrs().s("reduction")}});
  }
  Ints dims(static_cast<size_t>(e.rank(0)), 1);
  dims[0] = most + 1;
  if (e.attrs().b("mean")) rows = e.add("Div", {rows, e.add("Reshape", {e.floats(counts), e.ints(dims)})});
  const int test = e.add("Cast", {e.add("Reshape", {e.floats(there), e.ints(dims)})}, {{"to", DType::kBool}});
  e.finish("Where", {test, rows, e.zero(e.type(0).dtype)});
  return ok();
}
MINNOW_LOWERING("mnn.Segment", expand_segment);

// M. Giles, "Approximating the erfinv function": polynomials in -log(1 - x^2), in the middle and in the tails.
Status expand_erf_inv(Expansion& e) {
  const auto number = [&](double value) {
    return e.add("Reshape", {e.floats({static_cast<float>(value)}), e.ints({})});
  };
  const auto polynomial = [&](int x, std::initializer_list<double> factors) {
    int sum = -1;
    for (double factor : factors)
      sum = sum < 0 ? number(factor) : e.add("Add", {e.add("Mul", {sum, x}), number(factor)});
    return sum;
  };
  const int x = e.in(0), one = number(1);
  const int product = e.add("Mul", {e.add("Sub", {one, x}), e.add("Add", {one, x})});
  const int w = e.add("Neg", {e.add("Log", {product})});
  const int middle = polynomial(e.add("Sub", {w, number(2.5)}),
                                {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                 -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const int tails = polynomial(e.add("Sub", {e.add("Sqrt", {w}), number(3)}),
                               {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  const int y = e.add("Mul", {e.add("Where", {e.add("Less", {w, number(5)}), middle, tails}), x});
  const int ends = e.add("Equal", {e.add("Abs", {x}), one});
  const int infinite = e.add("Div", {x, number(0)});
  e.finish("Where", {ends, infinite, y});
  return ok();
}
MINNOW_LOWERING("mnn.ErfInv", expand_erf_inv);

}  // namespace
}  // namespace minnow
