// The text of a kernel for a program on elements: a thread reads some neighbors of every operand at once, and does step
// after step with the functions of the portable texts, whose switches are gone when it has been compiled. Where all
// floats are of 16 bits, some functions are replaced by fast ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "kernels/cuda/elements.h"
#include "kernels/gpu/text/elementwise_codes.inc"
#include "kernels/gpu/texts.h"

namespace minnow::cuda {

// Made by the build.
extern const char* const kTextSources[];
extern const char* const kTextHead;

namespace {

using gpu::ElementIndex;
using gpu::ElementProgram;
using gpu::ElementStep;

// Exact to 16 bits, and NaN stays NaN.
constexpr const char kFast[] = R"(
FN float fast_exp(float x) { return __expf(x); }
FN float fast_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
FN float fast_silu(float x) { return x * fast_sigmoid(x); }
FN float fast_tanh(float x) { return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x)); }
FN float fast_gelu(float x) {
  float z = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, __fmaf_rn(0.3275911f, z, 1.0f));
  float p = __fmaf_rn(t, __fmaf_rn(t, __fmaf_rn(t, __fmaf_rn(t, 1.061405429f, -1.453152027f), 1.421413741f),
                      -0.284496736f), 0.254829592f);
  float e = t * p * __expf(-z * z);
  return x * (x > 0.0f ? 1.0f - 0.5f * e : 0.5f * e);
}
FN float fast_gelu_tanh(float x) {
  return x * fast_sigmoid(1.5957691f * __fmaf_rn(0.044715f * x * x, x, x));
}
FN unsigned short bits_to_bf16(uint u) {
  return (unsigned short)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack { T at[N]; };
)";

const char* fast_function(int code) {
  switch (code) {
    case STEP_EXP:
      return "fast_exp";
    case STEP_SIGMOID:
      return "fast_sigmoid";
    case STEP_SILU:
      return "fast_silu";
    case STEP_TANH:
      return "fast_tanh";
    case STEP_GELU:
      return "fast_gelu";
    case STEP_GELU_TANH:
      return "fast_gelu_tanh";
    default:
      return nullptr;
  }
}

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "uint";
    case DType::kF16:
    case DType::kBF16:
    case DType::kU16:
      return "unsigned short";
    case DType::kI16:
      return "short";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
    case DType::kBool:
      return "unsigned char";
    case DType::kI32:
      return "int";
    default:
      return nullptr;
  }
}

// The bits that steps compute with, of an element in memory, and the other way round.
std::string taken(DType dtype, const std::string& from) {
  if (dtype == DType::kF32) return from;
  if (dtype == DType::kF16) return "AS_UINT(half_to_float(" + from + "))";
  if (dtype == DType::kBF16) return "((uint)" + from + " << 16)";
  return "TO_UINT((int)" + from + ")";
}
std::string given(DType dtype, const std::string& v) {
  if (dtype == DType::kF32) return v;
  if (dtype == DType::kF16) return "float_to_half(AS_FLOAT(" + v + "))";
  if (dtype == DType::kBF16) return "bits_to_bf16(" + v + ")";
  if (dtype == DType::kBool) return "(unsigned char)(" + v + " != 0u)";
  return std::string("(") + c_type(dtype) + ")TO_INT(" + v + ")";
}

std::string number(uint32_t v) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%xu", v);
  return text;
}

// The name of a step in the texts.
std::string step_name(const std::string& text, int code) {
  const std::string define = "#define STEP_";
  for (size_t at = text.find(define); at != std::string::npos; at = text.find(define, at + 1)) {
    const size_t name = at + define.size() - 5, end = text.find(' ', name);
    if (std::atoi(text.c_str() + end) == code) return text.substr(name, end - name);
  }
  return "";
}

// A function of the text with a switch over the steps, reduced to one of them: without it the compiler would expand all
// of them wherever one is used. Empty: that step is what remains when all others are excluded.
std::string reduced(const std::string& text, const std::string& function, int code, const std::string& name) {
  const size_t call = text.find(" " + function + "("), begin = text.rfind("FN", call), end = text.find("\n}\n", call);
  const size_t first = text.find("switch (op) {\n", call);
  if (call == std::string::npos || first == std::string::npos || end == std::string::npos || first > end) return "";
  const size_t cases = first + 14;
  const size_t own = text.find("    case " + step_name(text, code) + ":", cases);
  if (own == std::string::npos || own > end) return "";
  const size_t next = std::min(text.find("\n    case ", own), text.find("\n    default:", own));
  std::string out = text.substr(begin, cases - begin);
  out.replace(out.find(function + "("), function.size(), name);
  return out + text.substr(own, next - own) +
         text.substr(text.find("\n    default:", own), end + 3 - text.find("\n    default:", own));
}

// The function that has a step in its switch.
const char* function_of(int code) {
  return code < STEP_IS_NAN ? "float_step" : code < STEP_WHERE ? "float_test" : "int_step";
}

std::string expression(const ElementStep& step, bool fast, const std::string& function) {
  const auto value = [&](size_t i) {
    return i < step.in.size() ? "v" + std::to_string(step.in[i]) + "[j]" : std::string("0u");
  };
  const std::string a = value(0), b = value(1), c = value(2);
  const std::string code = std::to_string(step.code);
  const std::string two = ", AS_FLOAT(" + number(step.numbers[0]) + "), AS_FLOAT(" + number(step.numbers[1]) + "))";
  std::string made;
  if (fast && fast_function(step.code) != nullptr) {
    made = std::string("AS_UINT(") + fast_function(step.code) + "(AS_FLOAT(" + a + ")))";
  } else if (step.code < STEP_IS_NAN) {
    made = "AS_UINT(" + function + "(" + code + ", AS_FLOAT(" + a + "), AS_FLOAT(" + b + ")" + two + ")";
  } else if (step.code < STEP_WHERE) {
    made = "TO_UINT(" + function + "(" + code + ", AS_FLOAT(" + a + "), AS_FLOAT(" + b + ")" + two + ")";
  } else if (step.code == STEP_WHERE) {
    made = a + " != 0u ? " + b + " : " + c;
  } else if (step.code == STEP_INT_TO_FLOAT) {
    made = "AS_UINT(TO_FLOAT(TO_INT(" + a + ")))";
  } else {
    made = "TO_UINT(" + function + "(" + code + ", TO_INT(" + a + "), TO_INT(" + b + "), " +
           (step.all_bits ? "true" : "false") + ", " + number(step.numbers[0]) + ", " + number(step.numbers[1]) + ", " +
           number(step.numbers[2]) + ", " + number(step.numbers[3]) + "))";
  }
  if (step.code >= STEP_FLOAT_TO_INT)
    made = "TO_UINT(wrapped_to(TO_INT(" + made + "), " + std::to_string(static_cast<int>(step.dtype)) + "))";
  return made;
}

// The functions of the portable text for numbers of 32 bits.
std::string text_functions() {
  const gpu::TextInfo* text = gpu::find_text("elementwise_32");
  if (text == nullptr) return "";
  const std::string source = kTextSources[gpu::index_of(*text)];
  return source.substr(0, source.find("extern \"C\" __global__"));
}

}  // namespace

std::string element_source(const ElementProgram& program, const ElementForm& form) {
  std::vector<DType> types = program.operands;
  bool fast = true;
  for (const ElementStep& step : program.steps) {
    types.push_back(step.dtype);
    if (step.code >= STEP_FLOAT_TO_LONG) return "";
  }
  for (DType t : types)
    if (c_type(t) == nullptr) return "";
  for (DType t : program.operands) fast = fast && t != DType::kF32;
  for (DType t : form.results) {
    fast = fast && t != DType::kF32;
    if (c_type(t) == nullptr) return "";
  }
  const std::string text = text_functions();
  if (text.empty()) return "";

  const int n = form.together;
  const std::string together = std::to_string(n), rank = std::to_string(std::max(1, form.rank));
  const std::string count = std::to_string(std::max<size_t>(1, program.operands.size()));
  std::string out = std::string(kTextHead) + text + kFast;
  std::map<int, std::string> functions;  // by step
  for (const ElementStep& step : program.steps) {
    if (functions.count(step.code) > 0 || step.code == STEP_WHERE || step.code == STEP_INT_TO_FLOAT) continue;
    const std::string whole = function_of(step.code), own = whole + "_" + std::to_string(step.code);
    const std::string code = reduced(text, whole, step.code, own);
    out += code;
    functions[step.code] = code.empty() ? whole : own;
  }
  out += "struct Index { int n; uint size[" + rank + "], factor[" + rank + "], shift[" + rank + "]; int stride[" +
         count + "][" + rank + "], last[" + count + "]; };\n";
  out += "extern \"C\" __global__ void __launch_bounds__(256) elements(";
  for (size_t k = 0; k < program.operands.size(); ++k)
    out += std::string("const ") + c_type(program.operands[k]) + "* x" + std::to_string(k) + ", ";
  for (size_t k = 0; k < program.results.size(); ++k)
    out += std::string(c_type(form.results[k])) + "* y" + std::to_string(k) + ", ";
  out += "const __grid_constant__ Index index) {\n  FOLLOW_PREVIOUS;\n";
  out += "  const int first = (int)(blockIdx.x * 256 + threadIdx.x) * " + together + ";\n";
  out += "  if (first >= index.n) return;\n";
  out += "  const int count = index.n - first < " + together + " ? index.n - first : " + together + ";\n";
  for (size_t v = 0; v < types.size(); ++v) out += "  uint v" + std::to_string(v) + "[" + together + "];\n";

  // Where strided operands are read: of the first element, or of each.
  const auto each = [&](size_t k, auto one) {
    if (form.operands[k].mode == ElementIndex::kStrided) one("at" + std::to_string(k), std::to_string(k));
  };
  const auto places = [&](const std::string& from) {
    std::string lines = "    int rest = " + from + ";\n";
    for (size_t k = 0; k < form.operands.size(); ++k)
      each(k, [&](const std::string& at, const std::string&) { lines += "    " + at + " = 0;\n"; });
    for (int d = 0; d < form.rank; ++d) {
      const std::string i = std::to_string(d);
      const bool more = d + 1 < form.rank;
      lines += "    { int more = " +
               (more ? "TO_INT(MULHI(TO_UINT(rest), index.factor[" + i + "]) >> index.shift[" + i + "])" : "0") +
               ", here = rest - more * TO_INT(index.size[" + i + "]); rest = more;\n";
      for (size_t k = 0; k < form.operands.size(); ++k)
        each(k, [&](const std::string& at, const std::string& number) {
          lines += "      " + at + " += here * index.stride[" + number + "][" + i + "];\n";
        });
      lines += "    }\n";
    }
    return lines;
  };
  for (size_t k = 0; k < form.operands.size(); ++k)
    each(k, [&](const std::string& at, const std::string&) { out += "  int " + at + ";\n"; });
  const std::string loop = "for (int j = 0; j < " + together + "; ++j) ";
  const auto unrolled = [&](const std::string& body) { return "#pragma unroll\n  " + loop + body + "\n"; };
  const bool strided = std::any_of(form.operands.begin(), form.operands.end(),
                                   [](const auto& o) { return o.mode == ElementIndex::kStrided; });
  if (strided && form.rows) out += "  {\n" + places("first") + "  }\n";
  for (size_t k = 0; k < form.operands.size(); ++k) {
    const ElementForm::Operand& operand = form.operands[k];
    const std::string i = std::to_string(k), x = "x" + i, v = "v" + i + "[j]", at = "at" + i;
    const std::string pack = "Pack<" + std::string(c_type(operand.dtype)) + ", " + together + ">";
    const auto read = [&](const std::string& place) {
      return v + " = " + taken(operand.dtype, x + "[" + place + "]") + ";";
    };
    if (operand.mode == ElementIndex::kSingle) {
      out += unrolled(read("0"));
    } else if (operand.mode == ElementIndex::kSame) {
      out += "  if (count == " + together + ") {\n    const " + pack + " p = *(const " + pack + "*)(" + x +
             " + first);\n" + unrolled(v + " = " + taken(operand.dtype, "p.at[j]") + ";") + "  } else {\n" +
             unrolled("if (j < count) " + read("first + j")) + "  }\n";
    } else if (form.rows && operand.step == 0) {
      out += unrolled(read(operand.is_bounded ? "MINI(" + at + ", index.last[" + i + "])" : at));
    } else if (form.rows && operand.whole) {
      out += "  {\n    const " + pack + " p = *(const " + pack + "*)(" + x + " + " + at + ");\n" +
             unrolled(v + " = " + taken(operand.dtype, "p.at[j]") + ";") + "  }\n";
    } else if (form.rows) {
      const std::string place = at + " + j * index.stride[" + i + "][0]";
      out += unrolled(read(operand.is_bounded ? "MINI(" + place + ", index.last[" + i + "])" : place));
    }
  }
  if (strided && !form.rows) {
    std::string body = "if (j < count) {\n" + places("first + j");
    for (size_t k = 0; k < form.operands.size(); ++k)
      each(k, [&](const std::string& at, const std::string& i) {
        body += "    v" + i +
                "[j] = " + taken(form.operands[k].dtype, "x" + i + "[MINI(" + at + ", index.last[" + i + "])]") + ";\n";
      });
    out += unrolled(body + "  }");
  }
  std::string steps;
  for (size_t k = 0; k < program.steps.size(); ++k)
    steps += "    v" + std::to_string(program.operands.size() + k) +
             "[j] = " + expression(program.steps[k], fast, functions[program.steps[k].code]) + ";\n";
  out += unrolled("{\n" + steps + "  }");
  for (size_t k = 0; k < program.results.size(); ++k) {
    const DType dtype = form.results[k];
    const std::string y = "y" + std::to_string(k);
    const std::string v = given(dtype, "v" + std::to_string(program.results[k]) + "[j]");
    const std::string pack = "Pack<" + std::string(c_type(dtype)) + ", " + together + ">";
    out += "  if (count == " + together + ") {\n    " + pack + " p;\n" + unrolled("p.at[j] = " + v + ";") + "    *(" +
           pack + "*)(" + y + " + first) = p;\n  } else {\n" +
           unrolled("if (j < count) " + y + "[first + j] = " + v + ";") + "  }\n";
  }
  return out + "}\n";
}

}  // namespace minnow::cuda
