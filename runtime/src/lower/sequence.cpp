// Lowering of arrays of tensors to sequences, whose places are known when the contents of their operands are.
#include <numeric>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kMostArray = 4096;  // of an array that is filled one by one

Status only_number(Expansion& e, int i, int64_t* value) {
  Ints values;
  MINNOW_RETURN_IF_ERROR(e.ints(i, &values));
  if (values.size() != 1) return fail(Code::kFormat, "%zu numbers where one is needed", values.size());
  *value = values[0];
  return ok();
}

Status check_array(int64_t count) {
  if (count >= 0 && count <= kMostArray) return ok();
  return fail(Code::kUnsupported, "an array with %lld places", static_cast<long long>(count));
}

// What stands in places that nothing was written to.
int empty_place(Expansion& e, DType dtype) { return e.add("Fill", {e.ints({0}), e.zero(dtype)}); }

Status expand_array(Expansion& e) {
  int64_t count = 0;
  MINNOW_RETURN_IF_ERROR(only_number(e, 0, &count));
  MINNOW_RETURN_IF_ERROR(check_array(count));
  const auto dtype = e.attrs().get<DType>("dtype", DType::kF32);
  std::vector<int> places;
  if (count > 0) places.assign(static_cast<size_t>(count), empty_place(e, dtype));
  e.finish("SequenceConstruct", places, {{"dtype", dtype}});
  return ok();
}
MINNOW_LOWERING("mnn.Array", expand_array);

// sequence, x, place: whether a tensor is replaced depends on how many there are.
Status expand_array_write(Expansion& e) {
  const int count = e.add("SequenceLength", {e.in(0)});
  e.finish("mnn.ArrayPut", {e.in(0), e.in(1), e.in(2), count});
  return ok();
}
MINNOW_LOWERING("mnn.ArrayWrite", expand_array_write);

Status expand_array_put(Expansion& e) {
  int64_t at = 0, count = 0;
  MINNOW_RETURN_IF_ERROR(only_number(e, 2, &at));
  MINNOW_RETURN_IF_ERROR(only_number(e, 3, &count));
  if (at < 0) return fail(Code::kFormat, "it writes to the place %lld", static_cast<long long>(at));
  MINNOW_RETURN_IF_ERROR(check_array(at));
  int sequence = e.in(0);
  if (at < count) sequence = e.add("SequenceErase", {sequence, e.ints({at})});
  for (; count < at; ++count) sequence = e.add("SequenceInsert", {sequence, empty_place(e, e.type(1).dtype)});
  e.finish("SequenceInsert", {sequence, e.in(1), e.ints({at})});
  return ok();
}
MINNOW_LOWERING("mnn.ArrayPut", expand_array_put);

// sequence, values, places: mostly all of them, in their order.
Status expand_array_scatter(Expansion& e) {
  Ints places, all;
  MINNOW_RETURN_IF_ERROR(e.ints(2, &places));
  if (e.rank(1) < 1 || e.shape(1)[0] != static_cast<int64_t>(places.size()))
    return fail(Code::kFormat, "%zu places for values of shape %s", places.size(), e.shape(1).str().c_str());
  all.resize(places.size());
  std::iota(all.begin(), all.end(), 0);
  if (places == all) {
    e.finish("SplitToSequence", {e.in(1)}, {{"axis", int64_t{0}}, {"keepdims", false}});
    return ok();
  }
  MINNOW_RETURN_IF_ERROR(check_array(static_cast<int64_t>(places.size())));
  int sequence = e.in(0);
  for (size_t i = 0; i < places.size(); ++i) {
    const int part = e.add("Slice", {e.in(1), e.ints({all[i]}), e.ints({all[i] + 1}), e.ints({0})});
    const int value = e.add("Squeeze", {part}, {{"axes", Ints{0}}});
    sequence = e.add("mnn.ArrayWrite", {sequence, value, e.ints({places[i]})});
  }
  e.finish("Identity", {sequence});
  return ok();
}
MINNOW_LOWERING("mnn.ArrayScatter", expand_array_scatter);

// One number is the size of all parts.
Status expand_array_split(Expansion& e) {
  Ints sizes;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &sizes));
  const bool keepdims = e.attrs().b("keepdims");
  const int64_t axis = e.attrs().i("axis");
  std::vector<int> inputs = {e.in(0)};
  if (sizes.size() != 1) {
    inputs.push_back(e.ints(sizes));
  } else if (sizes[0] != 1 || keepdims) {
    inputs.push_back(e.add("Reshape", {e.ints(sizes), e.ints({})}));
  }
  e.finish("SplitToSequence", inputs, {{"axis", axis}, {"keepdims", keepdims}});
  return ok();
}
MINNOW_LOWERING("mnn.ArraySplit", expand_array_split);

}  // namespace
}  // namespace minnow
