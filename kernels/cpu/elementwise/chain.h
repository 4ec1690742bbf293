// Chains of arithmetic on floats, each op on the result of the one before: the numbers stay in registers.
#pragma once

#include <cstdint>

namespace minnow {

enum class LinkOp : uint8_t {
  kAdd,
  kSub,
  kSubFrom,
  kMul,
  kDiv,
  kDivFrom,
  kMax,
  kMaxOf,
  kMin,
  kMinOf,
  kAbs,
  kNeg,
  kSquare,
  kSqrt,
  kRelu
};

// x becomes `x op other`; in kSubFrom, kDivFrom, kMaxOf and kMinOf it is the second operand.
struct Link {
  LinkOp op = LinkOp::kAdd;
  bool single = false;           // `other` is one number for all elements, not a number for each
  const float* other = nullptr;  // null for ops of one operand
};

constexpr int kMostLinks = 16;

// Whether a chain may have an op of this name: as a link on `place` 0 or 1, where the result of the one before is its
// operand of that number, or (`operands` 1) its only one.
bool find_link(const char* op, int operands, int place, LinkOp* link);

// y = the chain of x, of so many of the n elements as fill blocks of vectors, the first ones. Gives their number. y may
// be one of the operands.
int64_t run_chain(const Link* links, int count, const float* x, float* y, int64_t n);

}  // namespace minnow
