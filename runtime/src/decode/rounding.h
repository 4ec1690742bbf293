// Tensors that a file declares as 8-bit integers: real = (q - zero) * scale. Where all tensors of an op are such, MNN's
// runtime computes the op on the integers: it rounds its inputs, unless they are integers already, and its outputs.
// Here the op is computed on the reals that the rounded numbers stand for, or on the integers where it only moves them.
#pragma once

#include <map>

#include "kernels/core/status.h"

namespace minnow {

class Decoder;

// How real numbers are rounded to 8 bits.
struct Rounding {
  float scale = 0.0f;
  int zero = 0;  // the integer for 0.0
  int min = -128, max = 127;
  bool operator==(const Rounding& other) const { return scale == other.scale && zero == other.zero; }
};

// Of one graph.
class Roundings {
 public:
  bool empty() const { return of_.empty(); }
  void set(int value, const Rounding& rounding) { of_[value] = rounding; }
  void forget(int value) { of_.erase(value); }
  // Null for a value that the file does not declare as integers.
  const Rounding* find(int value) const {
    const auto it = of_.find(value);
    return it == of_.end() ? nullptr : &it->second;
  }
  // The values that hold the integers of a declared one, as i8, and the reals that these stand for; -1 before anything
  // has computed them.
  int& bytes(int value) { return bytes_.try_emplace(value, -1).first->second; }
  int& reals(int value) { return reals_.try_emplace(value, -1).first->second; }

 private:
  std::map<int, Rounding> of_;
  std::map<int, int> bytes_, reals_;
};

// Decodes the op by `function`, on integers where the file asks for that.
Status decode_rounded(Decoder& d, Status (*function)(Decoder&));

}  // namespace minnow
