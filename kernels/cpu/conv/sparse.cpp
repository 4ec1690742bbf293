// Convolutions with weights of which most are 0.
#include "kernels/core/rounding.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/gemm/sparse.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

SparseMatrix weights_of(const ConvShape& s, const float* w) {
  const int64_t inputs = s.icg() * s.kh * s.kw;
  return {w, s.oc, inputs, inputs, 1};
}

SparseShape sparse_shape(const ConvShape& s) {
  const int64_t pack = pack_width();
  SparseShape to;
  to.n = s.n;
  to.ic = s.ic;
  to.ih = s.ih;
  to.iw = s.iw;
  to.oc = s.oc;
  to.oh = s.oh;
  to.ow = s.ow;
  to.group = s.group;
  to.kh = s.kh;
  to.kw = s.kw;
  to.sh = s.sh;
  to.sw = s.sw;
  to.dh = s.dh;
  to.dw = s.dw;
  to.top = s.top;
  to.left = s.left;
  to.in = {pack, s.iw * pack, s.ih * s.iw * pack, round_up(s.ic, pack) * s.ih * s.iw};
  to.out = {pack, s.ow * pack, s.oh * s.ow * pack, round_up(s.oc, pack) * s.oh * s.ow};
  if (Shape{s.ih, s.iw, s.oh, s.ow}.count() == 1 && s.group == 1) {  // images of a pixel are the pixels of one
    to.iw = to.ow = s.n;
    to.n = 1;
    to.in.pixel = to.in.image;
    to.in.row = to.in.image = s.n * to.in.pixel;
    to.out.pixel = to.out.image;
    to.out.row = to.out.image = s.n * to.out.pixel;
    to.dh = to.dw = to.sh = to.sw = 1;
  }
  to.out_lanes = pack;
  to.activation = s.activation;
  to.threads = s.threads;
  return to;
}

class ConvSparse final : public ConvScheme {
 public:
  ConvSparse(const ConvShape& shape, std::unique_ptr<SparseProduct> product)
      : shape_(shape), product_(std::move(product)) {}

  const char* name() const override { return product_->packing(); }
  const char* packing() const override { return product_->packing(); }
  int64_t packed_floats() const override { return product_->packed_floats(); }
  int64_t table_bytes() const override { return product_->table_bytes(); }
  void pack(const float* w, float* packed, ThreadPool*) const override {
    product_->pack(weights_of(shape_, w), packed);
  }
  int64_t workspace_bytes() const override { return product_->workspace_bytes(); }
  Work work() const override { return product_->work(); }
  void run(const ConvCall& call) const override {
    product_->run({call.x, call.w, call.bias, call.residual, call.y, call.workspace, call.pool});
  }

 private:
  ConvShape shape_;
  std::unique_ptr<SparseProduct> product_;
};

}  // namespace

std::unique_ptr<ConvScheme> make_conv_sparse(const ConvShape& s, const float* w, double seconds) {
  const bool is_pixel = Shape{s.ih, s.iw, s.oh, s.ow}.count() == 1;
  if (s.plain_input || (is_pixel && s.kh * s.kw > 1)) return nullptr;
  auto product = SparseProduct::faster_than(seconds, sparse_shape(s), weights_of(s, w));
  if (product == nullptr) return nullptr;
  return std::make_unique<ConvSparse>(s, std::move(product));
}

}  // namespace minnow
