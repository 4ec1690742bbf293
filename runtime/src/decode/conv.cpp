// Convolution, and matrix product with weights in the op.
#include <algorithm>
#include <cstring>

#include "runtime/src/decode/conv.h"
#include "runtime/src/decode/weights.h"

namespace minnow {
namespace {

using Common = wire::Convolution2DCommon;

std::vector<int64_t> pair(int64_t y, int64_t x) { return {y, x}; }

}  // namespace

Status window_attrs(Decoder& d, const wire::Convolution2DCommon& c, bool transposed, Attrs* attrs) {
  const std::vector<int64_t> kernel = pair(c.kernelY(), c.kernelX());
  const std::vector<int64_t> strides = pair(std::max(c.strideY(), 1), std::max(c.strideX(), 1));
  const std::vector<int64_t> dilations = pair(std::max(c.dilateY(), 1), std::max(c.dilateX(), 1));
  std::vector<int64_t> pads = {c.padY(), c.padX(), c.padY(), c.padX()};
  if (c.pads() != nullptr && c.pads()->size() > 0) {
    pads = to_ints(c.pads());
    if (pads.size() == 2) pads = {pads[0], pads[1], pads[0], pads[1]};
    if (pads.size() != 4) return fail(Code::kFormat, "it has %zu pads, not 4", pads.size());
  }
  std::vector<int64_t> extra = to_ints(c.outPads());
  extra.resize(2);
  switch (c.padMode()) {
    case wire::PadMode::CAFFE:
      break;
    case wire::PadMode::VALID:
      pads.assign(4, 0);
      break;
    case wire::PadMode::SAME:
      pads.assign(4, 0);
      if (!transposed) {
        attrs->set("auto_pad", std::string("SAME_UPPER"));
      } else {
        // The output has size times stride elements: how many are cropped does not depend on the size.
        for (size_t i = 0; i < 2; ++i) {
          const int64_t over = (kernel[i] - 1) * dilations[i] + 1 + extra[i] - strides[i];
          pads[i] = std::max<int64_t>(over, 0) / 2;
          pads[i + 2] = (std::max<int64_t>(over, 0) + 1) / 2;
          extra[i] += std::max<int64_t>(-over, 0);
        }
      }
      break;
    default:
      return d.unsupported("padding mode " + std::to_string(static_cast<int>(c.padMode())));
  }
  attrs->set("strides", strides);
  attrs->set("dilations", dilations);
  attrs->set("pads", pads);
  if (transposed) attrs->set("output_padding", extra);
  attrs->set("activation", std::string(c.relu6() ? "relu6" : c.relu() ? "relu" : ""));
  return ok();
}

namespace {

// Elements of the weights in the file, in whatever form they are.
Status weight_count(Decoder& d, const wire::Convolution2D& main, int64_t* count) {
  const wire::IDSTQuan* quan = main.quanParameter();
  const auto* external = main.external();
  const bool outside = external != nullptr && external->size() > 1;
  if (quan == nullptr) {
    *count = main.weight() != nullptr && main.weight()->size() > 0 ? int64_t{main.weight()->size()}
             : outside                                             ? external->Get(1) / 4
                                                                   : 0;
    return ok();
  }
  const int64_t bytes = outside ? external->Get(1) : quan->buffer() == nullptr ? 0 : int64_t{quan->buffer()->size()};
  if (quan->type() == 0) *count = quan->weightSize();
  if (quan->type() == 3) *count = bytes / 2;
  if (quan->type() == 4) *count = bytes;
  if (quan->type() == 1 || quan->type() == 2) {
    const char* data = quan->buffer() == nullptr ? nullptr : reinterpret_cast<const char*>(quan->buffer()->data());
    std::shared_ptr<const MappedFile> file;
    int64_t size = bytes;
    if (outside) MINNOW_RETURN_IF_ERROR(d.external_bytes(*external, 0, &data, &size, &file));
    // The stream begins with its shape.
    const int64_t width = quan->shapeInt32() ? 4 : 2;
    const int64_t rank = size < 1 ? 0 : static_cast<uint8_t>(data[0]);
    if (rank < 1 || rank > 8 || size < 1 + rank * width)
      return fail(Code::kFormat, "its compressed weights are cut off");
    *count = 1;
    for (int64_t i = 0; i < rank; ++i) {
      int64_t dim = 0;
      std::memcpy(&dim, data + 1 + i * width, static_cast<size_t>(width));
      if (dim < 1 || *count > (int64_t{1} << 40) / dim)
        return fail(Code::kFormat, "its compressed weights have no size");
      *count *= dim;
    }
  }
  return ok();
}

Status decode_conv(Decoder& d) {
  const auto* main = d.main<wire::Convolution2D>();
  if (main == nullptr || main->common() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const Common& c = *main->common();
  const wire::OpType kind = d.op().type();
  const bool transposed = kind == wire::OpType::Deconvolution || kind == wire::OpType::DeconvolutionDepthwise;
  const bool depthwise = kind == wire::OpType::ConvolutionDepthwise || kind == wire::OpType::DeconvolutionDepthwise ||
                         kind == wire::OpType::DepthwiseConvInt8;
  Attrs attrs;
  MINNOW_RETURN_IF_ERROR(window_attrs(d, c, transposed, &attrs));
  const int64_t outs = c.outputCount();
  const int64_t kernel = int64_t{c.kernelY()} * c.kernelX();
  if (c.kernelY() < 1 || c.kernelX() < 1) return fail(Code::kFormat, "its kernel is %d x %d", c.kernelY(), c.kernelX());

  std::vector<int> inputs = {d.channels_first(d.in(0))};
  const int num_weights = d.num_inputs() - 1 - (c.hasOutputShape() ? 1 : 0);
  int64_t group = std::max(c.group(), 1);
  if (num_weights > 0) {
    MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
    if (depthwise && outs < 1) return d.unsupported("weights of unknown size, in groups");
    if (depthwise) group = outs;
    // Those of a convolution over one axis have no axis for the other, which the image has.
    std::vector<int64_t> shape = {outs, -1, c.kernelY(), c.kernelX()};
    if (transposed && group > 0) shape = {-1, outs / group, c.kernelY(), c.kernelX()};
    int weights = d.in(1);
    if (outs > 0) {  // else the parameters say nothing of their shape
      int dims = -1;
      MINNOW_RETURN_IF_ERROR(d.ints(shape, &dims));
      weights = d.add("Reshape", {weights, dims});
    }
    inputs.push_back(weights);
    inputs.push_back(num_weights > 1 ? d.in(2) : -1);
  } else {
    if (outs < 1) return fail(Code::kFormat, "it has %lld output channels", static_cast<long long>(outs));
    int64_t count = 0;
    MINNOW_RETURN_IF_ERROR(weight_count(d, *main, &count));
    if (depthwise) group = outs;
    if (outs % group != 0 || count < 1 || kernel > count || outs / group > count / kernel ||
        count % (outs / group * kernel) != 0 || (!transposed && count % outs != 0))
      return fail(Code::kFormat, "%lld weights do not fit %lld output channels in %lld groups and a kernel of %lld",
                  static_cast<long long>(count), static_cast<long long>(outs), static_cast<long long>(group),
                  static_cast<long long>(kernel));
    const Shape shape = transposed ? Shape{count / (outs / group * kernel), outs / group, c.kernelY(), c.kernelX()}
                                   : Shape{outs, count / outs / kernel, c.kernelY(), c.kernelX()};
    int weight = -1, bias = -1;
    const wire::IDSTQuan* quan = main->quanParameter();
    if (quan != nullptr) {
      std::shared_ptr<Constant> constant;
      MINNOW_RETURN_IF_ERROR(decode_quantized(d, *quan, main->external(), shape, &constant));
      weight = d.add_constant(std::move(constant));
    } else {
      MINNOW_RETURN_IF_ERROR(d.weights(main->weight(), main->external(), 0, shape, &weight));
    }
    const bool inline_bias = main->bias() != nullptr && main->bias()->size() > 0;
    const size_t part = quan == nullptr ? 1 : 2;
    const auto* external = main->external();
    const bool outside_bias = external != nullptr && external->size() > part + 1 &&
                              external->Get(static_cast<flatbuffers::uoffset_t>(part + 1)) > 0;
    if (inline_bias || outside_bias)
      MINNOW_RETURN_IF_ERROR(d.weights(main->bias(), external, part, Shape{outs}, &bias));
    inputs.push_back(weight);
    inputs.push_back(bias);
  }
  attrs.set("group", group);
  d.set_format(d.out(0), Format::NC4HW4);
  if (c.hasOutputShape()) {
    const int shape = d.in(d.num_inputs() - 1);
    inputs.resize(3, -1);
    inputs.push_back(shape);
    d.finish("mnn.ConvTransposeTo", inputs, std::move(attrs));
    return ok();
  }
  const wire::NetSource source = d.net().sourceType();
  const bool may_be_line = !d.file().is_ours && !transposed && c.kernelX() == 1 && c.strideX() == 1 &&
                           (source == wire::NetSource::ONNX || source == wire::NetSource::TORCH);
  d.finish(may_be_line ? "mnn.ConvLine" : transposed ? "ConvTranspose" : "Conv", inputs, std::move(attrs));
  return ok();
}
MINNOW_DECODE(Convolution, decode_conv);
MINNOW_DECODE(ConvolutionDepthwise, decode_conv);
MINNOW_DECODE(Deconvolution, decode_conv);
MINNOW_DECODE(DeconvolutionDepthwise, decode_conv);

Status decode_inner_product(Decoder& d) {
  const auto* main = d.main<wire::InnerProduct>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const int64_t outs = main->outputCount();
  const int64_t count = main->weight() == nullptr ? 0 : main->weight()->size();
  if (main->transpose() || main->quanParameter() != nullptr) return d.unsupported("transposed or compressed weights");
  if (outs < 1 || count < 1 || count % outs != 0)
    return fail(Code::kFormat, "%lld weights for %lld outputs", static_cast<long long>(count),
                static_cast<long long>(outs));
  int weight = -1, bias = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->weight(), nullptr, 0, Shape{outs, count / outs}, &weight));
  if (main->biasTerm() != 0) MINNOW_RETURN_IF_ERROR(d.weights(main->bias(), nullptr, 0, Shape{outs}, &bias));
  const int flat = d.add("Flatten", {d.in(0)}, {{"axis", int64_t{main->axis()}}});
  d.finish("Linear", {flat, weight, bias});
  return ok();
}
MINNOW_DECODE(InnerProduct, decode_inner_product);

Status decode_matmul(Decoder& d) {
  const bool batch = d.op().type() == wire::OpType::BatchMatMul;
  const auto* single = d.main<wire::MatMul>();
  const auto* batched = d.main<wire::BatchMatMulParam>();
  if (batch ? batched == nullptr : single == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const bool turn_a = batch ? batched->adjX() : single->transposeA();
  const bool turn_b = batch ? batched->adjY() : single->transposeB();
  if (d.num_inputs() > 3) return d.unsupported("quantized operands");
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  if (!batch && single->weight() != nullptr && single->weight()->size() > 0) return d.unsupported("weights in the op");
  const Constant* b = d.constant(1);
  if (!turn_a && turn_b && b != nullptr && b->type().shape.rank() == 2 && b->type().dtype == DType::kF32) {
    d.finish("Linear", {d.in(0), d.in(1), d.in(2)});
    return ok();
  }
  const AttrList attrs = {{"transpose_a", turn_a}, {"transpose_b", turn_b}};
  if (d.has(2)) {
    d.finish("Add", {d.add("MatMul", {d.in(0), d.in(1)}, attrs), d.in(2)});
  } else {
    d.finish("MatMul", {d.in(0), d.in(1)}, attrs);
  }
  return ok();
}
MINNOW_DECODE(MatMul, decode_matmul);
MINNOW_DECODE(BatchMatMul, decode_matmul);

std::vector<int64_t> pool_pads(const wire::Pool& p) {
  const std::vector<int64_t> pads = to_ints(p.pads());
  if (pads.size() == 2) return {pads[0], pads[1], pads[0], pads[1]};
  if (pads.size() == 4) return pads;
  return {p.padY(), p.padX(), p.padY(), p.padX()};
}

Status decode_pool(Decoder& d) {
  const auto* main = d.main<wire::Pool>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const bool mean = main->type() == wire::PoolType::AVEPOOL;
  if (!mean && main->type() != wire::PoolType::MAXPOOL) return d.unsupported("this type of pooling");
  const int x = d.channels_first(d.in(0));
  for (int i = 0; i < d.num_outputs(); ++i) d.set_format(d.out(i), Format::NC4HW4);
  if (main->isGlobal()) {
    MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
    d.finish(mean ? "GlobalAveragePool" : "GlobalMaxPool", {x});
    return ok();
  }
  const wire::PoolPadType mode = main->padType();
  if (mode > wire::PoolPadType::SAME) return d.unsupported("this type of padding");
  const bool given = mode == wire::PoolPadType::CAFFE;
  const std::vector<int64_t> pads = pool_pads(*main);
  Attrs attrs = make_attrs({{"kernel", pair(main->kernelY(), main->kernelX())},
                            {"strides", pair(std::max(main->strideY(), 1), std::max(main->strideX(), 1))},
                            {"dilations", pair(1, 1)},
                            {"pads", given ? pads : std::vector<int64_t>(4)},
                            {"ceil_mode", given && main->ceilModel()}});
  if (mode == wire::PoolPadType::SAME) attrs.set("auto_pad", std::string("SAME_UPPER"));
  if (mean) {
    const wire::AvgPoolCountType count = main->countType();
    // Without an explicit count type, padding counts in the mean only if the two scalars give it.
    const bool implied = count == wire::AvgPoolCountType::DEFAULT && given && to_ints(main->pads()).size() != 4 &&
                         (main->padX() != 0 || main->padY() != 0);
    attrs.set("count_include_pad", count == wire::AvgPoolCountType::INCLUDE_PADDING || implied);
  }
  if (!mean && d.num_outputs() == 2 && !d.file().is_ours) {
    d.finish("mnn.MaxPoolPlaces", {x}, std::move(attrs));
    return ok();
  }
  d.finish(mean ? "mnn.AveragePool" : "mnn.MaxPool", {x}, std::move(attrs));
  return ok();
}
MINNOW_DECODE(Pooling, decode_pool);

Status decode_pool3d(Decoder& d) {
  const auto* main = d.main<wire::Pool3D>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const bool mean = main->type() == wire::PoolType::AVEPOOL;
  const int x = d.channels_first(d.in(0));
  if (main->isGlobal()) {
    d.finish(mean ? "GlobalAveragePool" : "GlobalMaxPool", {x});
    return ok();
  }
  const std::vector<int64_t> kernel = to_ints(main->kernels()), strides = to_ints(main->strides());
  std::vector<int64_t> pads = to_ints(main->pads());
  if (pads.empty()) pads.assign(3, 0);
  if (kernel.size() != 3 || strides.size() != 3 || pads.size() != 3)
    return fail(Code::kFormat, "kernel, strides and pads must have 3 sizes");
  if (main->padType() == wire::PoolPadType::VALID) pads.assign(3, 0);
  Attrs attrs = make_attrs({{"kernel", kernel}, {"strides", strides}, {"dilations", std::vector<int64_t>{1, 1, 1}}});
  attrs.set("pads", std::vector<int64_t>{pads[0], pads[1], pads[2], pads[0], pads[1], pads[2]});
  if (main->padType() == wire::PoolPadType::SAME) attrs.set("auto_pad", std::string("SAME_UPPER"));
  d.finish(mean ? "AveragePool" : "MaxPool", {x}, std::move(attrs));
  return ok();
}
MINNOW_DECODE(Pooling3D, decode_pool3d);

}  // namespace
}  // namespace minnow
