#include "kernels/gpu/elementwise.h"

#include <algorithm>

#include "kernels/core/program.h"
#include "kernels/gpu/movement/moves.h"
#include "kernels/gpu/text/elementwise_codes.inc"

namespace minnow::gpu {
namespace {

// As the texts have it.
constexpr size_t kOperands = 8, kResults = 3, kRegisters = 16;
constexpr size_t kResultsAt = 47, kStridesAt = 48, kStridesOf = 16, kTypesAt = 176, kResultTypesAt = 184,
                 kNumResultsAt = 187;
constexpr size_t kStepsAt = 192, kStepWords = 8;

bool is_long(int code) { return code == STEP_FLOAT_TO_LONG || code == STEP_REQUANTIZE || code == STEP_REQUANTIZE_LONG; }
bool needs_long(DType t) { return t == DType::kU32 || t == DType::kI64 || t == DType::kU64; }

// How a text reads elements: those of storage types by their codes.
int read_as(DType t) { return static_cast<int>(is_storage(t) ? DType::kU8 : t); }

}  // namespace

Divisor::Divisor(int64_t divisor) : size(static_cast<uint32_t>(divisor)), factor(0), shift(0) {
  // 2^(31 + bits) / size, rounded up, is exact enough for numbers of 31 bits; 1 is never divided by.
  int bits = 0;
  while ((int64_t{1} << bits) < divisor) ++bits;
  if (bits == 0) return;
  shift = static_cast<uint32_t>(bits - 1);
  factor = static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + size - 1) / size);
}

Status ElementIndex::make(const std::vector<const TensorType*>& in, const TensorType& out, const Device& device) {
  const bool packed = out.layout == Layout::kPacked;
  // In the order of memory, innermost first: for the packed layout the channels come before the others.
  std::vector<int> dims;
  for (int d = out.shape.rank() - 1; d >= 0; --d) dims.push_back(d);
  std::array<int64_t, kMaxRank> extent{};
  for (int d = 0; d < out.shape.rank(); ++d) extent[static_cast<size_t>(d)] = out.shape[d];
  if (packed) {
    dims.erase(std::find(dims.begin(), dims.end(), 1));
    dims.insert(dims.begin(), 1);
    const int64_t others = out.shape.count() / std::max<int64_t>(1, out.shape[1]);
    const auto size = static_cast<int64_t>(dtype_size(out.dtype));
    extent[1] = others == 0 ? 0 : device.bytes(out) / size / others;
  }
  total_ = 1;
  for (int d : dims) total_ *= extent[static_cast<size_t>(d)];
  operands_.assign(in.size(), {});
  rank_ = 0;
  if (total_ == 0) return ok();
  // Strides of each operand along the dims of the result, from the last dim on.
  std::vector<std::array<int64_t, kMaxRank>> strides(in.size());
  for (size_t k = 0; k < in.size(); ++k) {
    const TensorType& type = *in[k];
    const int missing = out.shape.rank() - type.shape.rank();
    Operand& operand = operands_[k];
    if (type.count() == 1) {
      operand.mode = kSingle;
      continue;
    }
    if (type.shape == out.shape && type.layout == out.layout) continue;
    operand.mode = kStrided;
    if (type.layout == Layout::kPacked && (!packed || missing != 0))
      return fail(Code::kInternal, "an operand in packed layout beside a plain result");
    int64_t stride = 1, last = 0;
    for (int position = 0; position < type.shape.rank(); ++position) {
      // The packed operand's dims in its own memory, the others' from the last one on.
      const int d =
          type.layout == Layout::kPacked ? dims[static_cast<size_t>(position)] : out.shape.rank() - 1 - position;
      const int64_t own = type.shape[d - missing];
      const bool channels = type.layout == Layout::kPacked && d == 1;
      if (own != 1 || channels) {
        const int64_t stored = channels ? extent[1] : own;
        if (own != 1) strides[k][static_cast<size_t>(d)] = stride;
        last += (stored - 1) * (own != 1 ? stride : 0);
        stride *= stored;
      }
    }
    operand.last = last;
  }
  // Dims that all operands pass as if they were one.
  std::vector<int> kept;
  for (int d : dims)
    if (extent[static_cast<size_t>(d)] != 1) kept.push_back(d);
  for (int d : kept) {
    const auto u = static_cast<size_t>(d);
    bool joins = rank_ > 0;
    for (size_t k = 0; joins && k < in.size(); ++k)
      if (operands_[k].mode == kStrided)
        joins = strides[k][u] ==
                operands_[k].stride[static_cast<size_t>(rank_ - 1)] * size_[static_cast<size_t>(rank_ - 1)];
    if (joins) {
      size_[static_cast<size_t>(rank_ - 1)] *= extent[u];
      continue;
    }
    for (size_t k = 0; k < in.size(); ++k) operands_[k].stride[static_cast<size_t>(rank_)] = strides[k][u];
    size_[static_cast<size_t>(rank_++)] = extent[u];
  }
  if (std::none_of(operands_.begin(), operands_.end(), [](const Operand& o) { return o.mode == kStrided; })) rank_ = 0;
  return ok();
}

// Steps [begin, end) of a program, the values they read from others and those that others read, and where each value
// lies while the steps run.
struct ElementKernel::Piece {
  size_t begin = 0, end = 0;
  std::vector<int> operands, results;
  std::vector<int> registers;  // of each value of the program; -1: it is not there

  // False where this takes more than the texts have.
  bool make(const ElementProgram& program, size_t first, size_t last) {
    begin = first;
    end = last;
    operands.clear();
    results.clear();
    const int made_first = static_cast<int>(program.operands.size() + begin);
    const int made_end = static_cast<int>(program.operands.size() + end);
    std::vector<size_t> last_use(program.operands.size() + program.steps.size(), begin);
    for (size_t k = begin; k < end; ++k)
      for (int v : program.steps[k].in) {
        last_use[static_cast<size_t>(v)] = k;
        if (v < made_first && std::find(operands.begin(), operands.end(), v) == operands.end()) operands.push_back(v);
      }
    for (int v = made_first; v < made_end; ++v) {
      bool leaves = std::find(program.results.begin(), program.results.end(), v) != program.results.end();
      for (size_t k = end; !leaves && k < program.steps.size(); ++k)
        leaves = std::find(program.steps[k].in.begin(), program.steps[k].in.end(), v) != program.steps[k].in.end();
      if (leaves) results.push_back(v);
    }
    if (operands.size() > kOperands || results.size() > kResults) return false;
    registers.assign(last_use.size(), -1);
    std::vector<bool> used(kRegisters);
    for (size_t k = 0; k < operands.size(); ++k) {
      registers[static_cast<size_t>(operands[k])] = static_cast<int>(k);
      used[k] = true;
    }
    for (size_t k = begin; k < end; ++k) {
      for (int v : program.steps[k].in) {
        const auto u = static_cast<size_t>(v);
        if (last_use[u] == k && std::find(results.begin(), results.end(), v) == results.end())
          used[static_cast<size_t>(registers[u])] = false;
      }
      const auto free = std::find(used.begin(), used.end(), false);
      if (free == used.end()) return false;
      *free = true;
      registers[program.operands.size() + k] = static_cast<int>(free - used.begin());
    }
    return true;
  }
};

Status ElementKernel::reshape(const NodeContext& node, int64_t* workspace) {
  ElementProgram program;
  MINNOW_RETURN_IF_ERROR(this->program(node, &program));
  launches_.clear();
  *workspace = 0;
  compiled_ = device_of(node).compile(program, node);
  if (compiled_ != nullptr) return ok();
  std::vector<Place> places(program.operands.size() + program.steps.size());
  for (size_t i = 0; i < program.operands.size(); ++i)
    places[i] = {Place::kOperand, static_cast<int64_t>(i), *node.in[i]};
  for (size_t i = 0; i < program.results.size(); ++i)
    places[static_cast<size_t>(program.results[i])] = {Place::kResult, static_cast<int64_t>(i), *node.out[i]};
  Piece piece, longer;
  for (size_t begin = 0; begin < program.steps.size(); begin = piece.end) {
    if (!piece.make(program, begin, begin + 1))
      return fail(Code::kInternal, "an elementwise step of too many operands");
    while (piece.end < program.steps.size() && longer.make(program, begin, piece.end + 1)) piece = longer;
    for (int v : piece.results) {
      Place& place = places[static_cast<size_t>(v)];
      if (place.kind != Place::kOperand) continue;  // a result of the node
      place.kind = Place::kWorkspace;
      place.at = *workspace;
      place.type = {program.dtype(v), node.out[0]->layout, node.out[0]->shape};
      *workspace += (device_of(node).bytes(place.type) + 63) / 64 * 64;
    }
    MINNOW_RETURN_IF_ERROR(add_launch(node, program, piece, places));
  }
  return ok();
}

Status ElementKernel::add_launch(const NodeContext& node, const ElementProgram& program, const Piece& piece,
                                 const std::vector<Place>& places) {
  Device& device = device_of(node);
  Launch launch;
  std::vector<const TensorType*> types;
  bool wide = false;
  for (int v : piece.operands) {
    launch.operands.push_back(places[static_cast<size_t>(v)]);
    types.push_back(&places[static_cast<size_t>(v)].type);
    wide = wide || needs_long(program.dtype(v));
  }
  for (int v : piece.results) launch.results.push_back(places[static_cast<size_t>(v)]);
  ElementIndex index;
  MINNOW_RETURN_IF_ERROR(index.make(types, *node.out[0], device));
  total_ = index.total();
  if (total_ == 0) return ok();
  std::vector<uint32_t> code(kStepsAt + kStepWords * (piece.end - piece.begin));
  const auto word = [](int64_t x) { return static_cast<uint32_t>(x); };
  for (int d = 0; d < index.rank(); ++d) {
    const Divisor divisor(index.size(d));
    uint32_t* at = code.data() + 3 * d;
    at[0] = divisor.size, at[1] = divisor.factor, at[2] = divisor.shift;
  }
  for (size_t k = 0; k < types.size(); ++k) {
    const ElementIndex::Operand& operand = index.operand(k);
    launch.modes |= static_cast<int32_t>(static_cast<uint32_t>(operand.mode) << (2 * k));
    uint32_t* at = code.data() + kStridesAt + kStridesOf * k;
    for (int d = 0; d < index.rank(); ++d) at[d] = word(operand.stride[static_cast<size_t>(d)]);
    at[kStridesOf - 1] = word(operand.last);
  }
  for (size_t i = 0; i < piece.results.size(); ++i)
    code[kResultsAt] |= word(piece.registers[static_cast<size_t>(piece.results[i])]) << (8 * i);
  for (size_t k = piece.begin; k < piece.end; ++k) {
    const ElementStep& step = program.steps[k];
    uint32_t* at = code.data() + kStepsAt + kStepWords * (k - piece.begin);
    const int made = piece.registers[program.operands.size() + k];
    at[0] = word(step.code) | word(made) << 8 |
            word(static_cast<int>(step.cut != DType::kBool ? step.cut : step.dtype)) << 16 |
            (step.all_bits ? 1u << 24 : 0);
    for (size_t i = 0; i < step.in.size(); ++i)
      at[1] |= word(piece.registers[static_cast<size_t>(step.in[i])]) << (8 * i);
    for (size_t i = 0; i < step.numbers.size(); ++i) at[2 + i] = step.numbers[i];
    wide = wide || needs_long(step.dtype) || is_long(step.code);
  }
  for (size_t k = 0; k < kOperands; ++k) {
    const bool there = k < launch.operands.size();
    code[kTypesAt + k] = word(there ? read_as(launch.operands[k].type.dtype) : static_cast<int>(DType::kU32));
    if (!there) launch.modes |= static_cast<int32_t>(static_cast<uint32_t>(ElementIndex::kSingle) << (2 * k));
  }
  for (size_t i = 0; i < launch.results.size(); ++i)
    code[kResultTypesAt + i] = word(read_as(launch.results[i].type.dtype));
  code[kNumResultsAt] = word(static_cast<int64_t>(launch.results.size()));
  const auto bytes = static_cast<int64_t>(code.size() * sizeof(uint32_t));
  MINNOW_RETURN_IF_ERROR(device.upload(code.data(), bytes, &launch.code));
  launch.rank = index.rank();
  launch.steps = static_cast<int32_t>(piece.end - piece.begin);
  const ElementStep& first = program.steps[piece.begin];
  const bool alone = launch.steps == 1 && (first.in.size() == piece.operands.size() || piece.operands.size() == 1);
  // Without the constants that would make it another program: all operands are read then, from anywhere.
  const bool dynamic = !device.limits().specializes;
  const auto type_of = [&](const std::vector<Place>& all, size_t i) {
    return i < all.size() && !dynamic ? read_as(all[i].type.dtype) : 0;
  };
  MINNOW_RETURN_IF_ERROR(device.program(wide ? "elementwise_64" : "elementwise_32",
                                        {{"OPERANDS", static_cast<int>(dynamic ? kOperands : launch.operands.size())},
                                         {"RESULTS", static_cast<int>(dynamic ? kResults : launch.results.size())},
                                         {"ONLY", alone && !dynamic ? first.code : -1},
                                         {"DYNAMIC", dynamic ? 1 : 0},
                                         {"TYPE_0", type_of(launch.operands, 0)},
                                         {"TYPE_1", type_of(launch.operands, 1)},
                                         {"TYPE_2", type_of(launch.operands, 2)},
                                         {"TYPE_3", type_of(launch.operands, 3)},
                                         {"TYPE_4", type_of(launch.operands, 4)},
                                         {"TYPE_5", type_of(launch.operands, 5)},
                                         {"TYPE_6", type_of(launch.operands, 6)},
                                         {"TYPE_7", type_of(launch.operands, 7)},
                                         {"RESULT_0", type_of(launch.results, 0)},
                                         {"RESULT_1", type_of(launch.results, 1)},
                                         {"RESULT_2", type_of(launch.results, 2)}},
                                        &launch.program));
  launches_.push_back(std::move(launch));
  return ok();
}

Status ElementKernel::enqueue(const RunContext& context, Stream& stream) {
  if (compiled_ != nullptr) return compiled_->enqueue(context, stream);
  if (total_ == 0) return ok();
  const auto address = [&](const Place& place) -> const void* {
    const auto at = static_cast<size_t>(place.at);
    return place.kind == Place::kOperand  ? context.in[at]->data
           : place.kind == Place::kResult ? context.out[at]->data
                                          : static_cast<char*>(context.workspace) + at;
  };
  for (const Launch& launch : launches_) {
    Arguments arguments;
    for (size_t k = 0; k < kOperands; ++k)
      arguments.buffer(k < launch.operands.size() ? address(launch.operands[k]) : launch.code->data());
    for (size_t k = 0; k < kResults; ++k)
      arguments.buffer(k < launch.results.size() ? address(launch.results[k]) : launch.code->data());
    arguments.buffer(launch.code->data()).add(static_cast<int32_t>(total_));
    arguments.add(launch.rank).add(launch.steps).add(launch.modes);
    const int64_t groups = groups_for(total_, launch.program->text.group);
    MINNOW_RETURN_IF_ERROR(stream.launch(*launch.program, arguments, {std::min<int64_t>(groups, 65535)}));
  }
  return ok();
}

namespace {

class SingleKernel final : public ElementKernel {
 public:
  explicit SingleKernel(const char* op) : op_(op) {}

 protected:
  Status program(const NodeContext& node, ElementProgram* out) override {
    std::string why;
    const bool is_cast = op_ == "CastLike";  // whose second operand is a type only
    for (size_t i = 0; i < (is_cast ? 1 : node.in.size()); ++i) out->operands.push_back(node.in[i]->dtype);
    if (!element_steps(op_, node.attrs, out->operands, node.out[0]->dtype, &out->steps, &why))
      return Status(Code::kUnsupported, op_ + ": the device " + why);
    out->results = {static_cast<int>(out->operands.size() + out->steps.size()) - 1};
    return ok();
  }

 private:
  const std::string op_;
};

class FusedKernel final : public ElementKernel {
 public:
  explicit FusedKernel(const minnow::Program& program) : program_(program) {}

 protected:
  Status program(const NodeContext& node, ElementProgram* out) override {
    for (const TensorType* type : node.in) out->operands.push_back(type->dtype);
    std::vector<int> made;  // the value of the last step of each step of the program
    const auto value_of = [&](int v) {
      return v < program_.operands ? v : made[static_cast<size_t>(v - program_.operands)];
    };
    names_.clear();
    for (const minnow::Program::Step& step : program_.steps) {
      std::vector<DType> types;
      for (int v : step.in) types.push_back(out->dtype(value_of(v)));
      std::vector<ElementStep> steps;
      std::string why;
      if (!element_steps(step.op->name, *step.attrs, types, step.dtype, &steps, &why))
        return Status(Code::kUnsupported, std::string(step.op->name) + ": the device " + why);
      const auto before = static_cast<int>(out->operands.size() + out->steps.size());
      for (ElementStep& one : steps) {
        // Operands of the op, or what it has made itself.
        for (int& v : one.in)
          v = v < static_cast<int>(types.size()) ? value_of(step.in[static_cast<size_t>(v)])
                                                 : before + v - static_cast<int>(types.size());
        out->steps.push_back(one);
      }
      made.push_back(static_cast<int>(out->operands.size() + out->steps.size()) - 1);
      names_.append(names_.empty() ? "" : "+").append(step.op->name);
    }
    for (int v : program_.results) out->results.push_back(value_of(v));
    return ok();
  }

 private:
  const minnow::Program& program_;
};

std::unique_ptr<Kernel> create_fused(const NodeContext& node) {
  return std::make_unique<FusedKernel>(static_cast<const minnow::Program&>(node.attrs));
}

// Its steps have been asked for one by one.
bool supports_fused(const NodeContext& node, std::string* why) { return can_move(node, why); }

}  // namespace

std::unique_ptr<Kernel> create_element_kernel(const char* op) { return std::make_unique<SingleKernel>(op); }

bool supports_elements(const char* op, const NodeContext& node, std::string* why) {
  if (!can_move(node, why)) return false;
  std::vector<DType> in;
  bool wide = needs_long(node.out[0]->dtype);
  for (const TensorType* type : node.in) {
    in.push_back(type->dtype);
    wide = wide || needs_long(type->dtype);
  }
  std::vector<ElementStep> steps;
  if (!element_steps(op, node.attrs, in, node.out[0]->dtype, &steps, why)) return false;
  for (const ElementStep& step : steps) wide = wide || is_long(step.code);
  if (node.accelerator == nullptr) return true;
  const Limits& limits = device_of(node).limits();
  if (wide && !limits.int64) {
    *why = "computes no 64-bit integers";
    return false;
  }
  return true;
}

MINNOW_GPU_KERNEL("Fused", create_fused, supports_fused, LayoutRule::kElementwise, /*in_place=*/true);

}  // namespace minnow::gpu
