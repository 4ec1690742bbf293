#include "kernels/cpu/elementwise/chain.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// Vectors at a time: enough that finding out the op costs little beside them, few enough for the registers.
constexpr int kVectors = 8;

// The results are those of the kernels of single ops (binary.cpp, unary.cpp), bit by bit.
int64_t RunChain(const Link* links, int count, const float* x, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = kVectors * lanes;
  HWY_ALIGN float singles[kMostLinks][hn::MaxLanes(d)];
  for (int k = 0; k < count; ++k)
    if (links[k].single) hn::Store(hn::Set(d, *links[k].other), d, singles[k]);
  const int64_t whole = n / block * block;
  for (int64_t i = 0; i < whole; i += block) {
    V v[kVectors];
    for (int j = 0; j < kVectors; ++j) v[j] = hn::LoadU(d, x + i + j * lanes);
    for (int k = 0; k < count; ++k) {
      const Link& link = links[k];
      const bool each = !link.single && link.other != nullptr;  // an op of one operand has no other
      const float* other = each ? link.other + i : singles[k];
      const int64_t step = each ? lanes : 0;
#define MINNOW_EACH(Expression)                           \
  for (int j = 0; j < kVectors; ++j) {                    \
    const V a = v[j], b = hn::LoadU(d, other + j * step); \
    v[j] = Expression;                                    \
  }                                                       \
  break
#define MINNOW_EACH_ALONE(Expression)  \
  for (int j = 0; j < kVectors; ++j) { \
    const V a = v[j];                  \
    v[j] = Expression;                 \
  }                                    \
  break
      switch (link.op) {
        case LinkOp::kAdd:
          MINNOW_EACH(hn::Add(a, b));
        case LinkOp::kSub:
          MINNOW_EACH(hn::Sub(a, b));
        case LinkOp::kSubFrom:
          MINNOW_EACH(hn::Sub(b, a));
        case LinkOp::kMul:
          MINNOW_EACH(hn::Mul(a, b));
        case LinkOp::kDiv:
          MINNOW_EACH(hn::Div(a, b));
        case LinkOp::kDivFrom:
          MINNOW_EACH(hn::Div(b, a));
        case LinkOp::kMax:
          MINNOW_EACH(hn::IfThenElse(hn::IsNaN(a), a, AtLeast(a, b)));
        case LinkOp::kMaxOf:
          MINNOW_EACH(hn::IfThenElse(hn::IsNaN(b), b, AtLeast(b, a)));
        case LinkOp::kMin:
          MINNOW_EACH(hn::IfThenElse(hn::IsNaN(a), a, AtMost(a, b)));
        case LinkOp::kMinOf:
          MINNOW_EACH(hn::IfThenElse(hn::IsNaN(b), b, AtMost(b, a)));
        case LinkOp::kAbs:
          MINNOW_EACH_ALONE(hn::Abs(a));
        case LinkOp::kNeg:
          MINNOW_EACH_ALONE(hn::Neg(a));
        case LinkOp::kSquare:
          MINNOW_EACH_ALONE(hn::Mul(a, a));
        case LinkOp::kSqrt:
          MINNOW_EACH_ALONE(hn::Sqrt(a));
        case LinkOp::kRelu:
          MINNOW_EACH_ALONE(AtLeast(hn::Zero(d), a));
      }
#undef MINNOW_EACH
#undef MINNOW_EACH_ALONE
    }
    for (int j = 0; j < kVectors; ++j) hn::StoreU(v[j], d, y + i + j * lanes);
  }
  return whole;
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

namespace minnow {
namespace {

HWY_EXPORT(RunChain);

struct Known {
  const char* name;
  int operands;
  LinkOp first, second;  // where the result of the op before is operand 0, 1
};

// op list: what a vector of numbers is computed with in a register, as those kernels do that take single numbers
constexpr Known kKnown[] = {
    {"Add", 2, LinkOp::kAdd, LinkOp::kAdd},          {"Sub", 2, LinkOp::kSub, LinkOp::kSubFrom},
    {"Mul", 2, LinkOp::kMul, LinkOp::kMul},          {"Div", 2, LinkOp::kDiv, LinkOp::kDivFrom},
    {"Max", 2, LinkOp::kMax, LinkOp::kMaxOf},        {"Min", 2, LinkOp::kMin, LinkOp::kMinOf},
    {"Abs", 1, LinkOp::kAbs, LinkOp::kAbs},          {"Neg", 1, LinkOp::kNeg, LinkOp::kNeg},
    {"Square", 1, LinkOp::kSquare, LinkOp::kSquare}, {"Sqrt", 1, LinkOp::kSqrt, LinkOp::kSqrt},
    {"Relu", 1, LinkOp::kRelu, LinkOp::kRelu},
};

}  // namespace

bool find_link(const char* op, int operands, int place, LinkOp* link) {
  for (const Known& known : kKnown) {
    if (operands != known.operands || std::strcmp(op, known.name) != 0) continue;
    *link = place == 0 ? known.first : known.second;
    return true;
  }
  return false;
}

int64_t run_chain(const Link* links, int count, const float* x, float* y, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(RunChain)(links, count, x, y, n);
}

}  // namespace minnow
#endif
