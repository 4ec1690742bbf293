#include "kernels/vulkan/float_modes.h"

#include <cstring>

namespace minnow::vulkan {
namespace {

// Of the specification of SPIR-V, and of SPV_KHR_float_controls.
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpExtension = 10, kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17;
constexpr uint32_t kCapabilitySubnormal = 4464, kModeSubnormal = 4459;  // DenormPreserve
constexpr uint32_t kCapabilitySpecial = 4466, kModeSpecial = 4461;      // SignedZeroInfNanPreserve
constexpr char kExtension[24] = "SPV_KHR_float_controls";
static_assert(sizeof kExtension % 4 == 0, "words, the rest of which is 0");

constexpr uint32_t head_of(uint32_t op, size_t words) { return static_cast<uint32_t>(words) << 16 | op; }

void ask(std::vector<uint32_t>* code, uint32_t entry, uint32_t mode, uint32_t widths) {
  for (const uint32_t width : {16u, 32u, 64u})
    if ((widths & width) != 0) code->insert(code->end(), {head_of(kOpExecutionMode, 4), entry, mode, width});
}

}  // namespace

FloatModes choose_float_modes(const VkPhysicalDeviceFloatControlsProperties& device) {
  FloatModes modes;
  if (device.shaderSignedZeroInfNanPreserveFloat16 == VK_TRUE) modes.special |= 16;
  if (device.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE) modes.special |= 32;
  const bool f16 = device.shaderDenormPreserveFloat16 == VK_TRUE, f32 = device.shaderDenormPreserveFloat32 == VK_TRUE,
             f64 = device.shaderDenormPreserveFloat64 == VK_TRUE;
  switch (device.denormBehaviorIndependence) {  // which widths must be asked for together
    case VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL:
      modes.subnormal = (f16 ? 16u : 0u) + (f32 ? 32u : 0u);
      break;
    case VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY:
      modes.subnormal = (f16 && f64 ? 16u + 64u : 0u) + (f32 ? 32u : 0u);
      break;
    default:
      modes.subnormal = f16 && f32 && f64 ? 16u + 32u + 64u : 0u;
  }
  return modes;
}

std::vector<uint32_t> with_float_modes(const uint32_t* code, size_t bytes, const FloatModes& modes) {
  const size_t words = bytes / 4;
  if (modes.special == 0 && modes.subnormal == 0) return {code, code + words};
  // Capabilities stand first, the entry point before its modes.
  size_t capabilities = kHeaderWords, entry = kHeaderWords;
  for (size_t i = kHeaderWords; i < words && entry == kHeaderWords; i += code[i] >> 16) {
    const uint32_t op = code[i] & 0xffff;
    if (op == kOpCapability) capabilities = i + (code[i] >> 16);
    if (op == kOpEntryPoint) entry = i;
  }
  std::vector<uint32_t> out(code, code + capabilities);
  if (modes.special != 0) out.insert(out.end(), {head_of(kOpCapability, 2), kCapabilitySpecial});
  if (modes.subnormal != 0) out.insert(out.end(), {head_of(kOpCapability, 2), kCapabilitySubnormal});
  uint32_t name[sizeof kExtension / 4];
  std::memcpy(name, kExtension, sizeof kExtension);
  out.push_back(head_of(kOpExtension, 1 + sizeof kExtension / 4));
  out.insert(out.end(), std::begin(name), std::end(name));
  const size_t behind = entry + (code[entry] >> 16);
  out.insert(out.end(), code + capabilities, code + behind);
  ask(&out, code[entry + 2], kModeSpecial, modes.special);
  ask(&out, code[entry + 2], kModeSubnormal, modes.subnormal);
  out.insert(out.end(), code + behind, code + words);
  return out;
}

}  // namespace minnow::vulkan
