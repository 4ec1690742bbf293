#include "runtime/src/decode/rounding.h"

#include <algorithm>
#include <cmath>

#include "names.h"
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

using wire::OpType;

enum class Way : uint8_t {
  kReal,     // the op is none of those that MNN's runtime computes on integers
  kMoved,    // its result has the integers of its inputs, in other places
  kRounded,  // computed on reals that were rounded, and its result is rounded
  kTable,    // a function of one integer, as a table
  kMean,     // a mean of integers, which is rounded down
  kBytes,    // its decoder takes integers and gives integers
};

// op list: the op types of the file that only move elements
constexpr OpType kMoving[] = {
    OpType::ConvertTensor, OpType::Reshape,  OpType::Flatten,      OpType::Squeeze,      OpType::Unsqueeze,
    OpType::ExpandDims,    OpType::Permute,  OpType::Transpose,    OpType::Concat,       OpType::Pack,
    OpType::Unpack,        OpType::Slice,    OpType::SliceTf,      OpType::StridedSlice, OpType::Tile,
    OpType::BroadcastTo,   OpType::Identity, OpType::DepthToSpace, OpType::SpaceToDepth, OpType::Reverse,
};

// op list: the op types of the file that MNN's runtime computes on integers
constexpr OpType kRounding[] = {
    OpType::Softmax, OpType::LayerNorm, OpType::BinaryOp, OpType::Scale, OpType::Interp, OpType::PReLU, OpType::UnaryOp,
};

// op list: the op types of the file whose results are no floats, and codes of such operations
constexpr OpType kNoFloats[] = {OpType::ArgMax, OpType::ArgMin, OpType::Shape, OpType::Size,
                                OpType::Rank,   OpType::Where,  OpType::Cast,  OpType::CastLike};
constexpr wire::BinaryOpOperation kNoFloatOperations[] = {
    wire::BinaryOpOperation::GREATER,    wire::BinaryOpOperation::GREATER_EQUAL, wire::BinaryOpOperation::LESS,
    wire::BinaryOpOperation::LESS_EQUAL, wire::BinaryOpOperation::EQUAL,         wire::BinaryOpOperation::NOTEQUAL,
    wire::BinaryOpOperation::LOGICALOR,  wire::BinaryOpOperation::LOGICALXOR,    wire::BinaryOpOperation::BITWISE_AND,
    wire::BinaryOpOperation::BITWISE_OR, wire::BinaryOpOperation::BITWISE_XOR,   wire::BinaryOpOperation::LEFTSHIFT,
    wire::BinaryOpOperation::RIGHTSHIFT,
};

template <typename T, size_t N>
bool is_among(T type, const T (&list)[N]) {
  return std::find(std::begin(list), std::end(list), type) != std::end(list);
}

}  // namespace

Status Decoder::read_roundings(const flatbuffers::Vector<flatbuffers::Offset<wire::TensorDescribe>>* describes) {
  if (describes == nullptr) return ok();
  for (const wire::TensorDescribe* describe : *describes) {
    const wire::TensorQuantInfo* info = describe->quantInfo();
    if (info == nullptr) continue;
    const int v = describe->index();
    if (v < 0 || static_cast<size_t>(v) >= graph_.values.size())
      return fail(Code::kFormat, "there is no tensor %d, of which it says how it is quantized", v);
    const std::string place = "tensor '" + graph_.values[static_cast<size_t>(v)].name + "'";
    if (!std::isfinite(info->scale()) || !std::isfinite(info->zero()) || info->scale() < 0.0f)
      return fail(Code::kFormat, "it is quantized with a scale of %g and a zero point of %g",
                  static_cast<double>(info->scale()), static_cast<double>(info->zero()))
          .at(place);
    if (info->type() != wire::DataType::DT_INT8 && info->type() != wire::DataType::DT_INVALID)
      return Status(Code::kUnsupported, std::string("quantized to ") +
                                            enumerator_name(wire::kDataTypeNames, static_cast<int>(info->type())))
          .at(place);
    const auto limit = [](float number) {
      return std::isnan(number) ? 0 : static_cast<int>(std::clamp(number, -128.0f, 127.0f));
    };
    Rounding rounding{info->scale(), limit(info->zero()), limit(info->min()), limit(info->max())};
    if (static_cast<float>(rounding.zero) != info->zero() || rounding.min > rounding.max)
      return Status(Code::kUnsupported, "a zero point or limits that 8 bits cannot hold").at(place);
    roundings_.set(v, rounding);
  }
  return ok();
}

// One op while it is decoded.
class QuantizedOp {
 public:
  explicit QuantizedOp(Decoder& d) : d_(d) {}

  Status decode(Status (*function)(Decoder&)) {
    if (!makes_floats()) {
      for (int v : d_.out_) d_.roundings_.forget(v);
      return function(d_);
    }
    switch (way()) {
      case Way::kMoved:
        return move(function);
      case Way::kRounded:
        return round(function);
      case Way::kTable:
        return look_up();
      case Way::kMean:
        return mean(function);
      case Way::kBytes:
        return on_bytes(function, d_.in_.size());
      case Way::kReal:
        break;
    }
    return function(d_);
  }

 private:
  const Rounding* rounding(int v) const { return v < 0 ? nullptr : d_.roundings_.find(v); }

  bool makes_floats() const {
    if (is_among(d_.op().type(), kNoFloats)) return false;
    const auto* binary = d_.op().type() == OpType::BinaryOp ? d_.main<wire::BinaryOp>() : nullptr;
    return binary == nullptr || !is_among(binary->opType(), kNoFloatOperations);
  }

  // Whether all tensors are integers; `same`: rounded alike.
  bool is_quantized(bool* same) const {
    const Rounding* first = d_.num_outputs() > 0 ? rounding(d_.out(0)) : nullptr;
    *same = true;
    if (first == nullptr || d_.num_inputs() < 1) return false;
    for (const std::vector<int>* list : {&d_.in_, &d_.out_})
      for (int v : *list) {
        const Rounding* q = rounding(v);
        if (q == nullptr) return false;
        *same &= *q == *first;
      }
    return true;
  }

  Way way() const {
    const OpType type = d_.op().type();
    if (is_among(type, kMoving)) return is_moved() ? Way::kMoved : Way::kReal;
    bool same = false;
    if (!is_quantized(&same)) return Way::kReal;
    if (type == OpType::Convolution || type == OpType::ConvolutionDepthwise) {
      const auto* main = d_.main<wire::Convolution2D>();
      const bool plain = main == nullptr || (main->weight() != nullptr && main->weight()->size() > 0);
      return plain || d_.num_inputs() > 1 ? Way::kReal : Way::kRounded;
    }
    if (type == OpType::ConvInt8 || type == OpType::DepthwiseConvInt8)
      return has_packed_weights() ? Way::kRounded : Way::kBytes;
    if (type == OpType::Pooling || type == OpType::Pooling3D) {
      const auto* flat = d_.main<wire::Pool>();
      const auto* deep = d_.main<wire::Pool3D>();
      if (!same || (flat == nullptr && deep == nullptr)) return Way::kReal;
      const auto kind = flat != nullptr ? flat->type() : deep->type();
      return kind == wire::PoolType::AVEPOOL ? Way::kMean : Way::kRounded;
    }
    if (type == OpType::ReLU) {
      const auto* main = d_.main<wire::Relu>();
      return same && (main == nullptr || main->slope() == 0.0f) ? Way::kRounded : Way::kReal;
    }
    if (type == OpType::UnaryOp) {
      const auto* main = d_.main<wire::UnaryOp>();
      if (main != nullptr && main->tableInt8() != nullptr) return Way::kTable;
    }
    return is_among(type, kRounding) ? Way::kRounded : Way::kReal;
  }

  // Whether an integer convolution has the weights that other convolutions have.
  bool has_packed_weights() const {
    const auto* main = d_.main<wire::Convolution2D>();
    if (main == nullptr || main->quanParameter() == nullptr) return false;
    return main->symmetricQuan() == nullptr || main->symmetricQuan()->weight() == nullptr;
  }

  // Shapes and axes beside the first input are no data. All inputs of some ops are data.
  bool is_moved() const {
    const OpType type = d_.op().type();
    const bool many = type == OpType::Concat || type == OpType::Pack;
    const Rounding* first = rounding(d_.out(0));
    if (first == nullptr || d_.num_inputs() < 1) return false;
    const int data = many ? d_.num_inputs() : 1;
    for (int i = 0; i < data; ++i)
      if (const Rounding* q = rounding(d_.in(i)); q == nullptr || !(*q == *first)) return false;
    return std::all_of(d_.out_.begin(), d_.out_.end(), [&](int v) {
      const Rounding* q = rounding(v);
      return q != nullptr && *q == *first;
    });
  }

  // The integers of a value.
  Status bytes(int v, int* q) {
    if (d_.roundings_.bytes(v) < 0) MINNOW_RETURN_IF_ERROR(add_rounding(v, *rounding(v), &d_.roundings_.bytes(v)));
    *q = d_.roundings_.bytes(v);
    return ok();
  }

  // The reals that the integers of a value stand for.
  Status reals(int v, int* out) {
    int& known = d_.roundings_.reals(v);
    if (known < 0) {
      int q = -1;
      MINNOW_RETURN_IF_ERROR(bytes(v, &q));
      known = d_.new_value();
      MINNOW_RETURN_IF_ERROR(add_reals(q, *rounding(v), known));
    }
    *out = known;
    return ok();
  }

  // `real`, rounded to integers: the zero point is added first, and halves go away from zero, as in MNN's runtime.
  Status add_rounding(int real, const Rounding& to, int* q) {
    int factor = -1, one = -1, zero = -1;
    MINNOW_RETURN_IF_ERROR(scalar(to.scale == 0.0f ? 0.0f : 1.0f / to.scale, &factor));
    MINNOW_RETURN_IF_ERROR(scalar(1.0f, &one));
    int steps = d_.add("Mul", {real, factor});
    if (to.zero != 0) {
      MINNOW_RETURN_IF_ERROR(scalar(static_cast<float>(to.zero), &zero));
      steps = d_.add("Add", {steps, zero});
    }
    steps = d_.add("Round", {steps}, {{"halves", std::string("away")}});
    if (to.min > -128 || to.max < 127)
      steps = d_.add("Clip", {steps}, {{"min", static_cast<double>(to.min)}, {"max", static_cast<double>(to.max)}});
    *q = d_.add("QuantizeLinear", {steps, one, byte(0)}, {{"to", DType::kI8}});
    return ok();
  }

  Status add_reals(int q, const Rounding& rounding, int out) {
    int scale = -1;
    MINNOW_RETURN_IF_ERROR(scalar(rounding.scale, &scale));
    d_.set_format(out, d_.format(q));
    d_.add_node("DequantizeLinear", {q, scale, byte(rounding.zero)}, {out}, Attrs());
    return ok();
  }

  Status scalar(float number, int* value) { return d_.floats({number}, Shape(), value); }

  int byte(int number) {
    const auto fill = [number](void* to) { *static_cast<int8_t*>(to) = static_cast<int8_t>(number); };
    return d_.add_constant(Constant::decoded({DType::kI8, Layout::kPlain, Shape()}, fill, {}));
  }

  // An output of the file, of which the integers are known.
  Status finish(int out, int q) {
    d_.roundings_.bytes(out) = q;
    d_.roundings_.reals(out) = out;
    return add_reals(q, *rounding(out), out);
  }

  // Runs `function` on other inputs and outputs than those of the file.
  Status run(Status (*function)(Decoder&), const std::vector<int>& in, const std::vector<int>& out) {
    const std::vector<int> file_in = d_.in_, file_out = d_.out_;
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i] >= 0) d_.set_format(in[i], d_.format(file_in[i]));
    for (size_t i = 0; i < out.size(); ++i) d_.set_format(out[i], d_.format(file_out[i]));
    d_.in_ = in;
    d_.out_ = out;
    const Status status = function(d_);
    d_.in_ = file_in;
    d_.out_ = file_out;
    return status;
  }

  // The op takes the integers of its data, and makes integers.
  Status move(Status (*function)(Decoder&)) {
    const OpType type = d_.op().type();
    const bool many = type == OpType::Concat || type == OpType::Pack;
    return on_bytes(function, many ? d_.in_.size() : 1);
  }

  Status on_bytes(Status (*function)(Decoder&), size_t data) {
    std::vector<int> in = d_.in_, out;
    for (size_t i = 0; i < data; ++i) MINNOW_RETURN_IF_ERROR(bytes(d_.in_[i], &in[i]));
    for (size_t i = 0; i < d_.out_.size(); ++i) out.push_back(d_.new_value());
    MINNOW_RETURN_IF_ERROR(run(function, in, out));
    for (size_t i = 0; i < out.size(); ++i) MINNOW_RETURN_IF_ERROR(finish(d_.out_[i], out[i]));
    return ok();
  }

  Status round(Status (*function)(Decoder&)) {
    const OpType type = d_.op().type();
    if (type == OpType::ConvInt8 || type == OpType::DepthwiseConvInt8) function = find_decoder(OpType::Convolution);
    if (function == nullptr) return d_.unsupported("");
    std::vector<int> in, out;
    for (int v : d_.in_) {
      in.emplace_back();
      MINNOW_RETURN_IF_ERROR(reals(v, &in.back()));
    }
    for (size_t i = 0; i < d_.out_.size(); ++i) out.push_back(d_.new_value());
    MINNOW_RETURN_IF_ERROR(run(function, in, out));
    for (size_t i = 0; i < out.size(); ++i) {
      int q = -1;
      MINNOW_RETURN_IF_ERROR(add_rounding(out[i], *rounding(d_.out_[i]), &q));
      MINNOW_RETURN_IF_ERROR(finish(d_.out_[i], q));
    }
    return ok();
  }

  // MNN's runtime adds 128 to the integers, multiplies their sum by 2^24 / count, which is cut to an integer, and
  // shifts. A mean that is a whole number is one too small then, unless the count is a power of two.
  Status mean(Status (*function)(Decoder&)) {
    const auto* main = d_.main<wire::Pool>();
    const int64_t count = main == nullptr || main->isGlobal() ? -1 : int64_t{main->kernelX()} * main->kernelY();
    const float below = count > 0 && (count & (count - 1)) == 0 ? 1.0f : 1.0f - 0x1p-18f;
    int factor = -1, one = -1, offset = -1, q = -1;
    MINNOW_RETURN_IF_ERROR(d_.need_outputs(1));
    MINNOW_RETURN_IF_ERROR(scalar(128.0f, &offset));
    MINNOW_RETURN_IF_ERROR(scalar(below, &factor));
    MINNOW_RETURN_IF_ERROR(scalar(1.0f, &one));
    MINNOW_RETURN_IF_ERROR(bytes(d_.in(0), &q));
    const int x = d_.add("Cast", {q}, {{"to", DType::kF32}}), y = d_.new_value();
    MINNOW_RETURN_IF_ERROR(run(function, {x}, {y}));
    const int floor = d_.add("Floor", {d_.add("Mul", {d_.add("Add", {y, offset}), factor})});
    return finish(d_.out(0), d_.add("QuantizeLinear", {floor, one, byte(-128)}, {{"to", DType::kI8}}));
  }

  // 255 integers, the first of them for -127; that for -128 is the same.
  Status look_up() {
    const auto* table = d_.main<wire::UnaryOp>()->tableInt8();
    MINNOW_RETURN_IF_ERROR(d_.need_inputs(1));
    MINNOW_RETURN_IF_ERROR(d_.need_outputs(1));
    if (table->size() != 255) return fail(Code::kFormat, "its table has %u numbers, not 255", table->size());
    std::vector<int8_t> all = {table->Get(0)};
    all.insert(all.end(), table->begin(), table->end());
    const auto fill = [all](void* to) { std::copy(all.begin(), all.end(), static_cast<int8_t*>(to)); };
    const TensorType type{DType::kI8, Layout::kPlain, Shape{256}};
    const int numbers = d_.add_constant(Constant::decoded(type, fill, {}));
    int q = -1;
    MINNOW_RETURN_IF_ERROR(bytes(d_.in(0), &q));
    return finish(d_.out(0), d_.add("LookUp", {q, numbers}));
  }

  Decoder& d_;
};

Status decode_rounded(Decoder& d, Status (*function)(Decoder&)) { return QuantizedOp(d).decode(function); }

}  // namespace minnow
