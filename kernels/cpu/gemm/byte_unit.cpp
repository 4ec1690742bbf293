// Which unit this machine has for products of bytes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/core/registrar.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/machine/simd.h"

namespace minnow {
namespace {

// op list: the kernels that ask for a unit; a slim library without them has no units either
constexpr bool kHasByteLayers = is_kept("ConvInteger") || is_kept("QuantizedConv") || is_kept("MatMulInteger") ||
                                is_kept("QuantizedMatMul") || is_kept("DynamicLSTM") || is_kept("packed weights");

struct ByteChoice {
  const ByteUnit* unit = nullptr;
  Status status;
};

ByteChoice choose_byte_unit() {
  ByteChoice choice;
  const char* variable = std::getenv("MINNOW_INT8");
  const std::string wanted = variable == nullptr ? "" : variable;
  if (wanted == "none") return choice;
  constexpr const char* kNames[] = {"", "amx", "avx512", "avx_vnni", "avx2", "emulated"};
  if (std::find(std::begin(kNames), std::end(kNames), wanted) == std::end(kNames)) {
    choice.status =
        fail(Code::kUsage, "MINNOW_INT8=%s: it is one of amx, avx512, avx_vnni, avx2, emulated, none", wanted.c_str());
    return choice;
  }
  // For the instruction set in use, as MINNOW_ISA may say otherwise.
  if constexpr (kHasByteLayers) {
    const int isa = isa_index();
    choice.unit = isa == 2 ? avx512_byte_unit(wanted) : isa == 1 ? avx2_byte_unit(wanted) : nullptr;
  }
  if (!wanted.empty() && choice.unit == nullptr)
    choice.status =
        fail(Code::kUsage, "MINNOW_INT8=%s: this machine has no such unit, or not with the instruction set %s",
             wanted.c_str(), isa_name());
  return choice;
}

const ByteChoice& byte_choice() {
  static const ByteChoice chosen = choose_byte_unit();
  return chosen;
}

}  // namespace

const ByteUnit* byte_unit() { return byte_choice().unit; }
Status byte_status() { return byte_choice().status; }

void place_left(const ByteUnit& unit, const uint32_t* lanes, int64_t n, int64_t row, int64_t first, int64_t steps,
                uint32_t* left) {
  uint32_t* to = left + byte_index(unit, row, first, steps);
  if (unit.steps == 1) {
    for (int64_t i = 0; i < n; ++i) to[i * unit.rows] = lanes[i];
    return;
  }
  for (int64_t i = 0; i < n;) {
    const int64_t together = std::min(n - i, unit.steps - (first + i) % unit.steps);
    std::memcpy(left + byte_index(unit, row, first + i, steps), lanes + i,
                static_cast<size_t>(together) * sizeof(uint32_t));
    i += together;
  }
}

}  // namespace minnow
