// Ops on tensors that are 8-bit integers in the file itself, as earlier releases of MNN wrote them: FloatToInt8 and
// Int8ToFloat stand between them and floats, and each layer has the scale from its sums to its integers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/src/decode/conv.h"
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

using Floats = flatbuffers::Vector<float>;

// Scales and zero points, one or one for each channel.
struct Steps {
  std::vector<float> scale, zero;
};

Status read_steps(const wire::QuantizedFloatParam& main, Steps* steps) {
  const Floats *scale = main.tensorScale(), *zeros = main.floatzeros();
  if (scale == nullptr || scale->size() == 0) return fail(Code::kFormat, "it has no scale");
  steps->scale.assign(scale->begin(), scale->end());
  steps->zero.assign(1, main.zeroPoint());
  if (zeros != nullptr && zeros->size() > 0) {
    if (zeros->size() != 1 && zeros->size() != scale->size())
      return fail(Code::kFormat, "it has %u zero points for %u scales", zeros->size(), scale->size());
    steps->zero.assign(zeros->begin(), zeros->end());
  }
  for (std::vector<float>* list : {&steps->scale, &steps->zero}) {
    if (!std::all_of(list->begin(), list->end(), [](float x) { return std::isfinite(x); }))
      return fail(Code::kFormat, "a scale or a zero point is not finite");
    // Equal numbers for all channels are one number.
    if (std::all_of(list->begin(), list->end(), [&](float x) { return x == list->front(); })) list->resize(1);
  }
  const size_t n = std::max(steps->scale.size(), steps->zero.size());
  steps->scale.resize(n, steps->scale.front());
  steps->zero.resize(n, steps->zero.front());
  return ok();
}

bool is_byte(float x) { return x >= -128.0f && x <= 127.0f && std::nearbyint(x) == x; }

// The zero points as integers of 8 bits.
Status zero_bytes(const Steps& steps, std::vector<int8_t>* zeros) {
  if (!std::all_of(steps.zero.begin(), steps.zero.end(), is_byte))
    return Status(Code::kUnsupported, "zero points of channels that are no integers of 8 bits");
  for (float zero : steps.zero) zeros->push_back(static_cast<int8_t>(zero));
  return ok();
}

int bytes_of(Decoder& d, const std::vector<int8_t>& values, const Shape& shape) {
  const auto fill = [values](void* to) { std::copy(values.begin(), values.end(), static_cast<int8_t*>(to)); };
  return d.add_constant(Constant::decoded({DType::kI8, Layout::kPlain, shape}, fill, {}));
}

Shape shape_of(const Steps& steps) {
  return steps.scale.size() == 1 ? Shape() : Shape{static_cast<int64_t>(steps.scale.size())};
}

// The op's result: q within these limits. A table is faster than comparisons, which wider integers do.
void finish_limited(Decoder& d, int q, int min, int max) {
  if (min <= -128 && max >= 127) {
    d.finish("Identity", {q});
    return;
  }
  std::vector<int8_t> table;
  for (int i = -128; i < 128; ++i) table.push_back(static_cast<int8_t>(std::min(std::max(i, min), max)));
  d.finish("LookUp", {q, bytes_of(d, table, Shape{256})});
}

// round(x * factor + zero), with the limits of i8; factors and zero points are one or one for each place along axis 1.
Status add_bytes(Decoder& d, int x, const Steps& steps, int* q) {
  std::vector<int8_t> zeros(1);
  std::vector<float> scale = {1.0f};
  if (steps.scale.size() == 1) {
    int factor = -1, zero = -1;
    MINNOW_RETURN_IF_ERROR(d.floats(steps.scale, Shape(), &factor));
    MINNOW_RETURN_IF_ERROR(d.floats(steps.zero, Shape(), &zero));
    x = d.add("Round", {d.add("Add", {d.add("Mul", {x, factor}), zero})}, {{"halves", std::string("away")}});
  } else {
    zeros.clear();
    MINNOW_RETURN_IF_ERROR(zero_bytes(steps, &zeros));
    scale = steps.scale;
    for (float& s : scale) s = s == 0.0f ? 0.0f : 1.0f / s;
  }
  int step = -1;
  const Shape shape = shape_of(steps);
  MINNOW_RETURN_IF_ERROR(d.floats(scale, shape, &step));
  *q = d.add("QuantizeLinear", {x, step, bytes_of(d, zeros, shape)}, {{"axis", int64_t{1}}, {"to", DType::kI8}});
  return ok();
}

// (q - zero) * scale.
Status add_floats(Decoder& d, int q, const Steps& steps, int* x) {
  int scale = -1;
  const Shape shape = shape_of(steps);
  MINNOW_RETURN_IF_ERROR(d.floats(steps.scale, shape, &scale));
  if (steps.zero.size() == 1 && !is_byte(steps.zero[0])) {
    int zero = -1;
    MINNOW_RETURN_IF_ERROR(d.floats(steps.zero, Shape(), &zero));
    *x = d.add("Mul", {d.add("Sub", {d.add("Cast", {q}, {{"to", DType::kF32}}), zero}), scale});
    return ok();
  }
  std::vector<int8_t> zeros;
  MINNOW_RETURN_IF_ERROR(zero_bytes(steps, &zeros));
  *x = d.add("DequantizeLinear", {q, scale, bytes_of(d, zeros, shape)}, {{"axis", int64_t{1}}});
  return ok();
}

Status decode_float_to_int8(Decoder& d) {
  const auto* main = d.main<wire::QuantizedFloatParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  Steps steps;
  MINNOW_RETURN_IF_ERROR(read_steps(*main, &steps));
  int q = -1;
  MINNOW_RETURN_IF_ERROR(add_bytes(d, d.channels_first(d.in(0)), steps, &q));
  d.set_format(d.out(0), d.format(q));
  finish_limited(d, q, main->clampMin(), main->clampMax());
  return ok();
}
MINNOW_DECODE(FloatToInt8, decode_float_to_int8);

Status decode_int8_to_float(Decoder& d) {
  const auto* main = d.main<wire::QuantizedFloatParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  Steps steps;
  int x = -1;
  MINNOW_RETURN_IF_ERROR(read_steps(*main, &steps));
  MINNOW_RETURN_IF_ERROR(add_floats(d, d.channels_first(d.in(0)), steps, &x));
  d.set_format(d.out(0), d.format(x));
  d.finish("Identity", {x});
  return ok();
}
MINNOW_DECODE(Int8ToFloat, decode_int8_to_float);

// Whatever its type says, it is a sum: MNN's quantizer, which alone wrote this op, left the type out.
Status decode_eltwise_int8(Decoder& d) {
  const auto* main = d.main<wire::EltwiseInt8>();
  if (main == nullptr || main->inputQuan0() == nullptr || main->inputQuan1() == nullptr ||
      main->outputQuan() == nullptr)
    return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  if (main->type() != wire::EltwiseType::PROD && main->type() != wire::EltwiseType::SUM)
    return d.unsupported("another operation than a sum");
  int sum[2] = {-1, -1};
  for (int i = 0; i < 2; ++i) {
    Steps steps;
    MINNOW_RETURN_IF_ERROR(read_steps(i == 0 ? *main->inputQuan0() : *main->inputQuan1(), &steps));
    MINNOW_RETURN_IF_ERROR(add_floats(d, d.channels_first(d.in(i)), steps, &sum[i]));
  }
  Steps steps;
  int q = -1;
  MINNOW_RETURN_IF_ERROR(read_steps(*main->outputQuan(), &steps));
  MINNOW_RETURN_IF_ERROR(add_bytes(d, d.add("Add", {sum[0], sum[1]}), steps, &q));
  d.set_format(d.out(0), d.format(q));
  finish_limited(d, q, main->outputQuan()->clampMin(), main->outputQuan()->clampMax());
  return ok();
}
MINNOW_DECODE(EltwiseInt8, decode_eltwise_int8);

int ints_of(Decoder& d, const std::vector<int32_t>& values, const Shape& shape) {
  const auto fill = [values](void* to) { std::copy(values.begin(), values.end(), static_cast<int32_t*>(to)); };
  return d.add_constant(Constant::decoded({DType::kI32, Layout::kPlain, shape}, fill, {}));
}

// A scale as multiplier * 2^(shift - 31). Requantize rounds twice where the shift is negative: once before it and once
// after it. So there is none, unless the multiplier alone would be less exact than that.
Status split(float scale, std::vector<int32_t>* multiplier, std::vector<int32_t>* shift) {
  int exponent = 0;
  double fraction = std::frexp(static_cast<double>(scale), &exponent);  // within [0.5, 1)
  if (exponent > 31) return Status(Code::kUnsupported, "a scale that is larger than any sum");
  if (exponent < -31) fraction = 0.0, exponent = 0;  // all products round to 0
  if (exponent <= 0 && exponent >= -12) fraction = static_cast<double>(scale), exponent = 0;
  multiplier->push_back(static_cast<int32_t>(std::llround(std::ldexp(fraction, 31))));
  shift->push_back(exponent);
  return ok();
}

// y = round((sum of w * x + bias) * scale). What zero points add to it is part of the bias already: that of x is what
// pads it, that of y is where Relu ends. Sums that are asked for as floats are not rounded.
Status decode_conv_int8(Decoder& d) {
  const auto* main = d.main<wire::Convolution2D>();
  if (main == nullptr || main->common() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const wire::QuantizedFloatParam* quan = main->symmetricQuan();
  if (quan == nullptr || quan->weight() == nullptr || quan->bias() == nullptr || quan->scale() == nullptr)
    return d.unsupported("no integer weights with a scale from its sums to its result");
  if (d.num_inputs() > 1) return d.unsupported("weights that are inputs");
  const bool floats = quan->outputDataType() == wire::DataType::DT_FLOAT;
  if (!floats && quan->outputDataType() != wire::DataType::DT_INT8) return d.unsupported("results of this type");
  if (quan->nbits() != 8) return d.unsupported("integers of " + std::to_string(quan->nbits()) + " bits");
  const auto& c = *main->common();
  const int64_t outs = c.outputCount(), count = quan->weight()->size();
  const int64_t group = d.op().type() == wire::OpType::DepthwiseConvInt8 ? outs : std::max(c.group(), 1);
  if (outs < 1 || c.kernelY() < 1 || c.kernelX() < 1 || outs % group != 0)
    return fail(Code::kFormat, "it has %lld output channels in %lld groups and a kernel of %d x %d",
                static_cast<long long>(outs), static_cast<long long>(group), c.kernelY(), c.kernelX());
  const int64_t kernel = int64_t{c.kernelY()} * c.kernelX();
  if (count % outs != 0 || count / outs % kernel != 0 || quan->bias()->size() != outs || quan->scale()->size() != outs)
    return fail(Code::kFormat, "%lld weights, %u biases and %u scales do not fit %lld output channels",
                static_cast<long long>(count), quan->bias()->size(), quan->scale()->size(),
                static_cast<long long>(outs));
  std::vector<float> scale(quan->scale()->begin(), quan->scale()->end());
  if (!std::all_of(scale.begin(), scale.end(), [](float s) { return std::isfinite(s); }))
    return fail(Code::kFormat, "a scale is not finite");
  Attrs attrs;
  MINNOW_RETURN_IF_ERROR(window_attrs(d, c, /*transposed=*/false, &attrs));
  attrs.set("group", group);
  const Shape along{outs, 1, 1};
  const int w = d.add_constant(
      constant_of_bytes({DType::kI8, Layout::kPlain, Shape{outs, count / outs / kernel, c.kernelY(), c.kernelX()}},
                        {reinterpret_cast<const char*>(quan->weight()->data()), count, d.main_file()}));
  // ConvInteger takes the zero point from each x, which the bias gives back.
  std::vector<int32_t> bias(quan->bias()->begin(), quan->bias()->end());
  if (quan->zeroPoint() != 0) {
    const int8_t* at = quan->weight()->data();
    for (int32_t& b : bias) {
      const int64_t total = std::accumulate(at, at + count / outs, int64_t{0});
      b = static_cast<int32_t>(static_cast<uint32_t>(b) + static_cast<uint32_t>(total * quan->zeroPoint()));
      at += count / outs;
    }
  }
  const int x = d.channels_first(d.in(0));
  const int sum = d.new_value();
  d.set_format(sum, wire::MNN_DATA_FORMAT::NC4HW4);
  Attrs window;
  window.merge(attrs, "activation");
  d.add_node("ConvInteger", {x, w, bytes_of(d, {quan->zeroPoint()}, Shape())}, {sum}, std::move(window));
  const int total = d.add("Add", {sum, ints_of(d, bias, along)});
  d.set_format(d.out(0), wire::MNN_DATA_FORMAT::NC4HW4);
  const bool relu = c.relu() || c.relu6();
  if (floats) {
    int factor = -1;
    MINNOW_RETURN_IF_ERROR(d.floats(scale, along, &factor));
    const int real = d.add("Mul", {d.add("Cast", {total}, {{"to", DType::kF32}}), factor});
    d.finish(relu ? "Relu" : "Identity", {real});
    return ok();
  }
  const int64_t min = std::max<int>(quan->clampMin(), relu ? quan->outputZeroPoint() : -128), max = quan->clampMax();
  if (min > max) return fail(Code::kFormat, "its results end at %d and begin after that", quan->clampMax());
  std::vector<int32_t> multiplier, shift;
  for (float s : scale) MINNOW_RETURN_IF_ERROR(split(s, &multiplier, &shift));
  d.finish("Requantize", {total, ints_of(d, multiplier, along), ints_of(d, shift, along)},
           {{"zero", int64_t{0}}, {"to", DType::kI8}, {"min", min}, {"max", max}});
  return ok();
}
MINNOW_DECODE(ConvInt8, decode_conv_int8);
MINNOW_DECODE(DepthwiseConvInt8, decode_conv_int8);

}  // namespace
}  // namespace minnow
