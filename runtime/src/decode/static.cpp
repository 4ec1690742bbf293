// Files with fixed shapes (usage INFERENCE_STATIC): layout ops are lists of strided copies there, and elementwise ops
// of operands that are broadcast are loops over strided elements. Both become gathers by constant places, or
// transposes where that is what they are.
#include <algorithm>
#include <climits>
#include <cstring>
#include <unordered_map>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;
using Three = flatbuffers::Vector<int32_t>;

constexpr int64_t kMostElements = int64_t{1} << 28;  // of a tensor of such a file
constexpr int64_t kMostPlaces = int64_t{1} << 26;    // constant places in all of a file

struct Strided {
  int64_t offset = 0;
  int64_t stride[3] = {0, 0, 0};

  int64_t at(int64_t i, int64_t j, int64_t k) const { return offset + i * stride[0] + j * stride[1] + k * stride[2]; }
};

Status read_three(const Three* values, int64_t missing, const char* what, int64_t* out) {
  if (values != nullptr && values->size() != 3) return fail(Code::kFormat, "%u numbers for %s", values->size(), what);
  for (flatbuffers::uoffset_t i = 0; i < 3; ++i) out[i] = values == nullptr ? missing : values->Get(i);
  return ok();
}

Status read_view(const wire::View* view, Strided* out) {
  if (view == nullptr) return fail(Code::kFormat, "it lacks a view");
  out->offset = view->offset();
  return read_three(view->stride(), 1, "strides", out->stride);
}

// All places lie within so many elements. Sizes are 1 at least.
Status check_within(const Strided& view, const int64_t* size, int64_t elements) {
  int64_t low = view.offset, high = view.offset;  // of products of 31 and 28 bits: no overflow
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = view.stride[i] * (size[i] - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (low >= 0 && high < elements) return ok();
  return fail(Code::kFormat, "its copies reach from %lld to %lld in %lld elements", static_cast<long long>(low),
              static_cast<long long>(high), static_cast<long long>(elements));
}

Status read_size(const Three* values, int64_t* size, int64_t* count) {
  MINNOW_RETURN_IF_ERROR(read_three(values, 1, "sizes", size));
  *count = 1;
  for (int i = 0; i < 3; ++i) {
    if (size[i] < 0 || size[i] > kMostElements)
      return fail(Code::kFormat, "a copy has the size %lld", static_cast<long long>(size[i]));
    *count = *count > kMostElements / std::max<int64_t>(size[i], 1) ? kMostElements + 1 : *count * size[i];
  }
  if (*count > kMostElements)
    return fail(Code::kUnsupported, "a copy of more than %lld elements", static_cast<long long>(kMostElements));
  return ok();
}

struct Described {
  Ints dims;
  int64_t count = 1;
  Format format = Format::NCHW;
};

Status describe(Decoder& d, int value, Described* out) {
  const auto it = d.file().described.find(value);
  if (it == d.file().described.end() || it->second->blob() == nullptr)
    return fail(Code::kFormat, "the file has no shape of tensor %d", value);
  const wire::Blob& blob = *it->second->blob();
  out->dims = to_ints(blob.dims());
  out->format = blob.dataFormat();
  if (out->dims.size() > kMaxRank) return d.unsupported("a tensor of rank " + std::to_string(out->dims.size()));
  for (int64_t n : out->dims) {
    if (n < 0) return fail(Code::kFormat, "tensor %d has the size %lld", value, static_cast<long long>(n));
    if (n > 0 && out->count > kMostElements / n)
      return d.unsupported("a tensor of more than " + std::to_string(kMostElements) + " elements");
    out->count *= n;
  }
  return ok();
}

struct Region {
  Strided from, to;
  int64_t size[3] = {1, 1, 1};
  int64_t count = 1;
  int origin = -1;
};

// The axes of a region in the order in which a view counts through all of `elements` one by one; empty if it does not.
std::vector<int> dense_order(const Strided& view, const int64_t* size, int64_t elements) {
  std::vector<int> axes;
  for (int i = 0; i < 3; ++i)
    if (size[i] != 1) axes.push_back(i);
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return view.stride[a] > view.stride[b]; });
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (view.stride[axes[i]] != step) return {};
    step *= size[axes[i]];
  }
  if (view.offset != 0 || step != elements) return {};
  for (int i = 0; i < 3; ++i)
    if (size[i] == 1) axes.push_back(i);
  return axes;
}

// All of one tensor, in another order of its axes.
bool finish_as_transpose(Decoder& d, const Region& region, int64_t elements, const Described& result) {
  const std::vector<int> from = dense_order(region.from, region.size, elements);
  const std::vector<int> to = dense_order(region.to, region.size, result.count);
  if (from.empty() || to.empty() || elements != result.count) return false;
  Ints dims, perm;
  for (int axis : from) dims.push_back(region.size[axis]);
  for (int axis : to) perm.push_back(std::find(from.begin(), from.end(), axis) - from.begin());
  int split = -1, shape = -1;
  if (!d.ints(dims, &split).ok() || !d.ints(result.dims, &shape).ok()) return false;
  int x = region.origin;
  if (!std::is_sorted(perm.begin(), perm.end()))
    x = d.add("Transpose", {d.add("Reshape", {x, split}, {{"allowzero", true}})}, {{"perm", perm}});
  d.finish("Reshape", {x, shape}, {{"allowzero", true}});
  return true;
}

// A constant with room for places, which count against the limit of the file.
Status make_places(Decoder& d, int64_t count, std::vector<int32_t>* places) {
  MINNOW_RETURN_IF_ERROR(d.count_places(count, kMostPlaces));
  places->assign(static_cast<size_t>(count), -1);
  return ok();
}

Status add_places(Decoder& d, const std::vector<int32_t>& places, const Shape& shape, int* value) {
  const TensorType type{DType::kI32, Layout::kPlain, shape};
  Buffer buffer;
  MINNOW_RETURN_IF_ERROR(Buffer::make(type.bytes(), &buffer));
  if (!places.empty()) std::memcpy(buffer.data(), places.data(), places.size() * sizeof(int32_t));
  *value = d.add_constant(Constant::owned(type, std::move(buffer)));
  return ok();
}

int flat(Decoder& d, int x, int minus_one) { return d.add("Reshape", {x, minus_one}); }

Status decode_raster(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  Described result;
  MINNOW_RETURN_IF_ERROR(describe(d, d.out(0), &result));
  d.set_format(d.out(0), result.format);
  const auto* list = d.file().described.at(d.out(0))->regions();
  std::vector<int> origins;                 // tensors that are read, each once
  std::unordered_map<int, int64_t> starts;  // of each in the row of them all
  std::vector<Region> regions;
  int64_t row = 0, written = 0;
  for (flatbuffers::uoffset_t r = 0; list != nullptr && r < list->size(); ++r) {
    const wire::Region& stored = *list->Get(r);
    Region region;
    MINNOW_RETURN_IF_ERROR(read_size(stored.size(), region.size, &region.count));
    if (region.count == 0) continue;
    MINNOW_RETURN_IF_ERROR(read_view(stored.src(), &region.from));
    MINNOW_RETURN_IF_ERROR(read_view(stored.dst(), &region.to));
    region.origin = d.in(static_cast<int>(r));  // each copy has an input of its own; some inputs are repeated
    if (region.origin < 0) return fail(Code::kFormat, "its copy %u has no input", r);
    Described source;
    MINNOW_RETURN_IF_ERROR(describe(d, region.origin, &source));
    MINNOW_RETURN_IF_ERROR(check_within(region.from, region.size, source.count));
    MINNOW_RETURN_IF_ERROR(check_within(region.to, region.size, result.count));
    if (list->size() == 1 && finish_as_transpose(d, region, source.count, result)) return ok();
    written += region.count;
    if (written > 4 * result.count + 1024)
      return fail(Code::kFormat, "it writes %lld elements and more where there are %lld",
                  static_cast<long long>(written), static_cast<long long>(result.count));
    if (starts.emplace(region.origin, row).second) {
      origins.push_back(region.origin);
      row += source.count;
    }
    regions.push_back(region);
  }
  if (row >= INT32_MAX) return d.unsupported("copies from more than 2^31 elements");
  std::vector<int32_t> places;
  MINNOW_RETURN_IF_ERROR(make_places(d, result.count, &places));
  for (const Region& region : regions) {
    const int64_t start = starts.at(region.origin);
    for (int64_t i = 0; i < region.size[0]; ++i)
      for (int64_t j = 0; j < region.size[1]; ++j)
        for (int64_t k = 0; k < region.size[2]; ++k)
          places[static_cast<size_t>(region.to.at(i, j, k))] = static_cast<int32_t>(start + region.from.at(i, j, k));
  }
  int minus_one = -1, shape = -1, taken = -1;
  MINNOW_RETURN_IF_ERROR(d.ints({-1}, &minus_one));
  MINNOW_RETURN_IF_ERROR(d.ints(result.dims, &shape));
  std::vector<int> parts;
  for (int origin : origins) parts.push_back(flat(d, origin, minus_one));
  // What no copy writes is 0.
  if (std::find(places.begin(), places.end(), -1) != places.end() || parts.empty()) {
    int one = -1;
    MINNOW_RETURN_IF_ERROR(d.ints({1}, &one));
    parts.push_back(d.add("mnn.Zeros", {one, d.in(0)}));
    std::replace(places.begin(), places.end(), -1, static_cast<int32_t>(row));
  }
  MINNOW_RETURN_IF_ERROR(add_places(d, places, Shape{result.count}, &taken));
  const int all = parts.size() == 1 ? parts[0] : d.add("Concat", parts, {{"axis", int64_t{0}}});
  d.finish("Reshape", {d.add("Gather", {all, taken}, {{"axis", int64_t{0}}}), shape}, {{"allowzero", true}});
  return ok();
}
MINNOW_DECODE(Raster, decode_raster);

// What a command of a loop computes of its operands: elementwise ops of all places at once, products of matrices by
// one for each iteration.
struct StaticLoop {
  const wire::RegionCommand* command = nullptr;
  int64_t rounds = 1;
  int64_t size[3] = {1, 1, 1};
  Strided views[3];
  int64_t steps[3] = {0, 0, 0};
  int operands[3] = {-1, -1, -1};  // the output, then the inputs, as values of the graph
  int places[3] = {-1, -1, -1};    // values with a number for each round, which counts instead of the round's own
  int count = 0;
};

Status read_loop(Decoder& d, const wire::LoopParam& main, StaticLoop* loop) {
  const bool plain = main.commands() != nullptr && main.commands()->size() == 1 &&
                     (main.initCommand() == nullptr || main.initCommand()->size() == 0) && d.num_outputs() == 1 &&
                     main.outputIndexes() != nullptr && main.outputIndexes()->size() == 1 &&
                     main.inputIndexes() != nullptr && static_cast<int>(main.inputIndexes()->size()) == d.num_inputs();
  if (!plain) return d.unsupported("a loop of more than one command");
  loop->command = main.commands()->Get(0);
  const wire::RegionCommand& c = *loop->command;
  loop->rounds = main.loopNumber();
  int64_t count = 0;
  MINNOW_RETURN_IF_ERROR(read_size(c.size(), loop->size, &count));
  if (loop->rounds < 1 || count < 1 || loop->rounds > kMostElements / count)
    return d.unsupported("a loop of " + std::to_string(loop->rounds) + " rounds");
  const auto* indexes = c.indexes();
  if (c.op() == nullptr || indexes == nullptr || indexes->size() < 2 || indexes->size() > 3 || c.view() == nullptr ||
      c.view()->size() != indexes->size() || c.fuse() >= 0)
    return d.unsupported("a loop with a command of this form");
  loop->count = static_cast<int>(indexes->size());
  for (flatbuffers::uoffset_t i = 0; i < indexes->size(); ++i) {
    const int by = c.iterIndexes() != nullptr && c.iterIndexes()->size() > i ? c.iterIndexes()->Get(i) : -1;
    MINNOW_RETURN_IF_ERROR(read_view(c.view()->Get(i), &loop->views[i]));
    if (c.steps() != nullptr && c.steps()->size() > i) loop->steps[i] = c.steps()->Get(i);
    const int index = indexes->Get(i);
    if (i == 0) {
      if (by >= 0) return d.unsupported("a loop that writes to computed places");
      if (index != main.outputIndexes()->Get(0)) return d.unsupported("a loop that keeps a value between its rounds");
      loop->operands[0] = d.out(0);
      continue;
    }
    const auto& inputs = *main.inputIndexes();
    const auto find_input = [&](int number, int* value) {
      const auto it = std::find(inputs.begin(), inputs.end(), number);
      if (it == inputs.end()) return d.unsupported("a loop that reads what it has written");
      *value = d.in(static_cast<int>(it - inputs.begin()));
      return *value >= 0 ? ok() : fail(Code::kFormat, "an operand of its loop is missing");
    };
    MINNOW_RETURN_IF_ERROR(find_input(index, &loop->operands[i]));
    if (by >= 0) MINNOW_RETURN_IF_ERROR(find_input(by, &loop->places[i]));
  }
  return ok();
}

// Checks the places of an operand in all rounds.
Status check_rounds(const StaticLoop& loop, int i, int64_t elements) {
  Strided first = loop.views[i], last = loop.views[i];
  last.offset += (loop.rounds - 1) * loop.steps[i];
  MINNOW_RETURN_IF_ERROR(check_within(first, loop.size, elements));
  return check_within(last, loop.size, elements);
}

// The elements of an operand from places that a tensor names for each round.
Status taken_by_places(Decoder& d, const StaticLoop& loop, int i, const Shape& shape, const int64_t (&size)[3],
                       int64_t elements, int minus_one, int* value) {
  const int64_t n = shape.count(1, shape.rank()), step = loop.steps[i];
  int rounds = -1, dims = -1, zero = -1, result = -1;
  MINNOW_RETURN_IF_ERROR(d.ints({0}, &zero));
  MINNOW_RETURN_IF_ERROR(d.ints({loop.rounds}, &rounds));
  MINNOW_RETURN_IF_ERROR(d.ints({shape.begin(), shape.end()}, &dims));
  const int places = d.add("Slice", {flat(d, loop.places[i], minus_one), zero, rounds});
  const std::vector<int> order = dense_order(loop.views[i], size, n);
  if (step == n && n > 0 && elements % n == 0 && !order.empty() && std::is_sorted(order.begin(), order.end())) {
    int table = -1;  // whole rows
    MINNOW_RETURN_IF_ERROR(d.ints({elements / n, n}, &table));
    result = d.add("Gather", {d.add("Reshape", {loop.operands[i], table}, {{"allowzero", true}}), places},
                   {{"axis", int64_t{0}}});
  } else {
    std::vector<int32_t> within;
    MINNOW_RETURN_IF_ERROR(make_places(d, n, &within));
    size_t at = 0;
    for (int64_t x = 0; x < size[0]; ++x)
      for (int64_t y = 0; y < size[1]; ++y)
        for (int64_t z = 0; z < size[2]; ++z) within[at++] = static_cast<int32_t>(loop.views[i].at(x, y, z));
    int inner = -1, column = -1, factor = -1;
    MINNOW_RETURN_IF_ERROR(add_places(d, within, Shape{1, n}, &inner));
    MINNOW_RETURN_IF_ERROR(add_places(d, {static_cast<int32_t>(step)}, Shape{1, 1}, &factor));
    MINNOW_RETURN_IF_ERROR(d.ints({loop.rounds, 1}, &column));
    const int moved = d.add("Mul", {d.add("Reshape", {places, column}, {{"allowzero", true}}), factor});
    const int all = flat(d, loop.operands[i], minus_one);
    result = d.add("Gather", {all, d.add("Add", {moved, inner})}, {{"axis", int64_t{0}}});
  }
  *value = d.add("Reshape", {result, dims}, {{"allowzero", true}});
  return ok();
}

// The elements of an operand, one for each round and place of the three axes, of which `axes` says which count.
Status taken_by(Decoder& d, const StaticLoop& loop, int i, const bool (&axes)[3], int minus_one, int* value) {
  Described source;
  MINNOW_RETURN_IF_ERROR(describe(d, loop.operands[i], &source));
  int64_t n[3];
  Shape shape{loop.rounds};
  for (int a = 0; a < 3; ++a) {
    n[a] = axes[a] ? loop.size[a] : 1;
    if (axes[a]) shape.push_back(n[a]);
  }
  if (loop.places[i] >= 0) return taken_by_places(d, loop, i, shape, n, source.count, minus_one, value);
  MINNOW_RETURN_IF_ERROR(check_rounds(loop, i, source.count));
  std::vector<int32_t> places;
  MINNOW_RETURN_IF_ERROR(make_places(d, shape.count(), &places));
  size_t at = 0;
  for (int64_t r = 0; r < loop.rounds; ++r)
    for (int64_t x = 0; x < n[0]; ++x)
      for (int64_t y = 0; y < n[1]; ++y)
        for (int64_t z = 0; z < n[2]; ++z)
          places[at++] = static_cast<int32_t>(r * loop.steps[i] + loop.views[i].at(x, y, z));
  int taken = -1;
  MINNOW_RETURN_IF_ERROR(add_places(d, places, shape, &taken));
  *value = d.add("Gather", {flat(d, loop.operands[i], minus_one), taken}, {{"axis", int64_t{0}}});
  return ok();
}

}  // namespace

Status static_shape(Decoder& d, int value, std::vector<int64_t>* dims) {
  Described described;
  MINNOW_RETURN_IF_ERROR(describe(d, value, &described));
  *dims = std::move(described.dims);
  return ok();
}

Status decode_static_loop(Decoder& d, const wire::LoopParam& main) {
  StaticLoop loop;
  MINNOW_RETURN_IF_ERROR(read_loop(d, main, &loop));
  const wire::Op& op = *loop.command->op();
  const auto* binary = op.main_as_BinaryOp();
  const auto* unary = op.main_as_UnaryOp();
  const bool product = op.type() == wire::OpType::MatMul;
  const char* name = nullptr;
  if (op.type() == wire::OpType::BinaryOp && binary != nullptr && binary->activationType() == 0 && loop.count == 3)
    name = binary_op_name(static_cast<int>(binary->opType()));
  if (op.type() == wire::OpType::UnaryOp && loop.count == 2)
    name = unary == nullptr ? "Identity" : unary_op_name(static_cast<int>(unary->opType()));
  if (product && loop.count == 3) name = "MatMul";
  if (name == nullptr) return d.unsupported("a loop of this op");
  Described result;
  MINNOW_RETURN_IF_ERROR(describe(d, d.out(0), &result));
  d.set_format(d.out(0), result.format);
  int minus_one = -1;
  MINNOW_RETURN_IF_ERROR(d.ints({-1}, &minus_one));
  // Of a product, the axes are rows, what is summed, and columns.
  const bool all[3] = {true, true, true}, left[3] = {true, true, false}, right[3] = {false, true, true};
  const bool outer[3] = {true, false, true};
  std::vector<int> operands(static_cast<size_t>(loop.count) - 1);
  for (int i = 1; i < loop.count; ++i)
    MINNOW_RETURN_IF_ERROR(taken_by(d, loop, i, product ? (i == 1 ? left : right) : all, minus_one,
                                    &operands[static_cast<size_t>(i) - 1]));
  const int values = flat(d, d.add(name, operands), minus_one);
  // From the places that are written to those that are read: every element of the result is written once.
  MINNOW_RETURN_IF_ERROR(check_rounds(loop, 0, result.count));
  const bool(&axes)[3] = product ? outer : all;
  int64_t n[3];
  for (int a = 0; a < 3; ++a) n[a] = axes[a] ? loop.size[a] : 1;
  if (loop.rounds * n[0] * n[1] * n[2] != result.count) return d.unsupported("a loop that writes elements repeatedly");
  std::vector<int32_t> places;
  MINNOW_RETURN_IF_ERROR(make_places(d, result.count, &places));
  int32_t at = 0;
  for (int64_t r = 0; r < loop.rounds; ++r)
    for (int64_t x = 0; x < n[0]; ++x)
      for (int64_t y = 0; y < n[1]; ++y)
        for (int64_t z = 0; z < n[2]; ++z)
          places[static_cast<size_t>(r * loop.steps[0] + loop.views[0].at(x, y, z))] = at++;
  if (std::find(places.begin(), places.end(), -1) != places.end())
    return d.unsupported("a loop that leaves elements out");
  int taken = -1, shape = -1;
  MINNOW_RETURN_IF_ERROR(add_places(d, places, Shape{result.count}, &taken));
  MINNOW_RETURN_IF_ERROR(d.ints(result.dims, &shape));
  const int ordered = d.add("Gather", {values, taken}, {{"axis", int64_t{0}}});
  d.finish("Reshape", {ordered, shape}, {{"allowzero", true}});
  return ok();
}

}  // namespace minnow
