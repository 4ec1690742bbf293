#include "kernels/vulkan/programs.h"

#include <cstdio>
#include <cstring>

#include "kernels/gpu/cache_file.h"
#include "kernels/gpu/texts.h"

namespace minnow::vulkan {

// SPIR-V made by the build: with small types, without, and with these and the sums of subgroups; 4 bytes: there is
// none.
extern const uint32_t* const kSmallCode[];
extern const uint32_t kSmallBytes[];
extern const uint32_t* const kWordsCode[];
extern const uint32_t kWordsBytes[];
extern const uint32_t* const kSubgroupsCode[];
extern const uint32_t kSubgroupsBytes[];

namespace {

constexpr auto kBetweenSaves = std::chrono::seconds(2);
constexpr size_t kMostCached = size_t{256} << 20;  // bytes

// Whether a driver's data are of this device and driver. The driver looks, too, but not all do that with care.
bool is_for(const std::string& data, const VkPhysicalDeviceProperties& properties) {
  VkPipelineCacheHeaderVersionOne head;
  if (data.size() < sizeof head || data.size() > kMostCached) return false;
  std::memcpy(&head, data.data(), sizeof head);
  return head.headerSize >= sizeof head && head.headerSize <= data.size() &&
         head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && head.vendorID == properties.vendorID &&
         head.deviceID == properties.deviceID &&
         std::memcmp(head.pipelineCacheUUID, properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

}  // namespace

Programs::~Programs() {
  const DeviceApi& vk = context_.vk;
  for (const auto& [key, entry] : entries_)
    if (entry->program != nullptr) vk.vkDestroyPipeline(context_.device, entry->program->pipeline, nullptr);
  for (const auto& [buffers, layout] : layouts_) {
    vk.vkDestroyPipelineLayout(context_.device, layout.pipeline, nullptr);
    vk.vkDestroyDescriptorSetLayout(context_.device, layout.set, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk.vkDestroyPipelineCache(context_.device, cache_, nullptr);
}

Status Programs::open() {
  const VkPhysicalDeviceProperties& device = context_.properties;
  cache_key_ = std::string(device.deviceName) + " " + std::to_string(device.driverVersion) + " " +
               std::string(reinterpret_cast<const char*>(device.pipelineCacheUUID), VK_UUID_SIZE);
  char name[40];
  std::snprintf(name, sizeof name, "vulkan/%016llx.bin", static_cast<unsigned long long>(gpu::hash_of(cache_key_)));
  cache_name_ = name;
  std::string known;
  if (!gpu::read_cache(cache_name_, cache_key_, &known) || !is_for(known, device)) known.clear();
  VkPipelineCacheCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = known.size();
  info.pInitialData = known.data();
  MINNOW_RETURN_IF_FAILED("to create a pipeline cache",
                          context_.vk.vkCreatePipelineCache(context_.device, &info, nullptr, &cache_));
  return ok();
}

void Programs::save() {
  if (!is_new_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - saved_ < kBetweenSaves) return;
  is_new_ = false;
  saved_ = now;
  size_t n = 0;
  if (context_.vk.vkGetPipelineCacheData(context_.device, cache_, &n, nullptr) != VK_SUCCESS || n > kMostCached) return;
  std::string data(n, '\0');
  if (context_.vk.vkGetPipelineCacheData(context_.device, cache_, &n, data.data()) != VK_SUCCESS) return;
  data.resize(n);
  if (is_for(data, context_.properties)) gpu::write_cache(cache_name_, cache_key_, data);
}

Status Programs::find(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out) {
  const gpu::TextInfo* info = gpu::find_text(text);
  if (info == nullptr) return fail(Code::kInternal, "there is no kernel text %s", text);
  std::vector<gpu::Constant> values;
  std::vector<std::string> names;
  MINNOW_RETURN_IF_ERROR(gpu::resolve_constants(*info, constants, &values, &names));
  std::string key = text;
  for (const gpu::Constant& value : values) key += ' ' + std::to_string(value.value);
  Entry* entry = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Entry>& known = entries_[key];
    if (known == nullptr) known = std::make_unique<Entry>();
    entry = known.get();
  }
  const std::lock_guard<std::mutex> lock(entry->compiling);
  if (entry->program == nullptr) MINNOW_RETURN_IF_ERROR(build(*info, values, &entry->program));
  *out = entry->program.get();
  return ok();
}

Status Programs::find_layout(int buffers, Layout* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = layouts_.find(buffers); known != layouts_.end()) {
    *out = known->second;
    return ok();
  }
  const auto n = static_cast<uint32_t>(buffers);
  if (n > context_.properties.limits.maxPerStageDescriptorStorageBuffers)
    return fail(Code::kUnsupported, "the device gives a kernel at most %u buffers, not %u",
                context_.properties.limits.maxPerStageDescriptorStorageBuffers, n);
  std::vector<VkDescriptorSetLayoutBinding> bindings(n);
  for (uint32_t i = 0; i < n; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set = {};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set.bindingCount = n;
  set.pBindings = bindings.data();
  Layout layout;
  MINNOW_RETURN_IF_FAILED("to create a set layout",
                          context_.vk.vkCreateDescriptorSetLayout(context_.device, &set, nullptr, &layout.set));
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushConstants};
  VkPipelineLayoutCreateInfo pipeline = {};
  pipeline.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  pipeline.setLayoutCount = 1;
  pipeline.pSetLayouts = &layout.set;
  pipeline.pushConstantRangeCount = 1;
  pipeline.pPushConstantRanges = &range;
  const VkResult result = context_.vk.vkCreatePipelineLayout(context_.device, &pipeline, nullptr, &layout.pipeline);
  if (result != VK_SUCCESS) {
    context_.vk.vkDestroyDescriptorSetLayout(context_.device, layout.set, nullptr);
    return failed("to create a pipeline layout", result);
  }
  *out = layouts_[buffers] = layout;
  return ok();
}

Status Programs::build(const gpu::TextInfo& text, const std::vector<gpu::Constant>& constants,
                       std::unique_ptr<BuiltProgram>* out) {
  const VkPhysicalDeviceLimits& limits = context_.properties.limits;
  const auto group = static_cast<uint32_t>(text.group);
  if (text.needs_int64 && !context_.int64)
    return fail(Code::kUnsupported, "%s computes with 64-bit integers, which this device does not", text.name);
  if (group > limits.maxComputeWorkGroupInvocations || group > limits.maxComputeWorkGroupSize[0])
    return fail(Code::kUnsupported, "%s has groups of %u items, more than this device runs", text.name, group);
  Layout layout;
  MINNOW_RETURN_IF_ERROR(find_layout(text.buffers, &layout));
  const auto number = static_cast<size_t>(gpu::index_of(text));
  VkShaderModuleCreateInfo code = {};
  code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  const bool subgroups = context_.small_types && context_.machine.subgroups && kSubgroupsBytes[number] > 4;
  const uint32_t* const made = subgroups              ? kSubgroupsCode[number]
                               : context_.small_types ? kSmallCode[number]
                                                      : kWordsCode[number];
  const uint32_t bytes = subgroups              ? kSubgroupsBytes[number]
                         : context_.small_types ? kSmallBytes[number]
                                                : kWordsBytes[number];
  const std::vector<uint32_t> words = with_float_modes(made, bytes, context_.float_modes);
  code.codeSize = 4 * words.size();
  code.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  MINNOW_RETURN_IF_FAILED("to create a shader",
                          context_.vk.vkCreateShaderModule(context_.device, &code, nullptr, &module));
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<int32_t> values;
  for (const gpu::Constant& constant : constants) {
    const auto i = static_cast<uint32_t>(values.size());
    entries.push_back({i, 4 * i, 4});
    values.push_back(constant.value);
  }
  const VkSpecializationInfo specialization = {static_cast<uint32_t>(entries.size()), entries.data(), 4 * values.size(),
                                               values.data()};
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout.pipeline;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = context_.vk.vkCreateComputePipelines(context_.device, cache_, 1, &info, nullptr, &pipeline);
  context_.vk.vkDestroyShaderModule(context_.device, module, nullptr);
  if (result != VK_SUCCESS) return failed("to compile a kernel", result).at(text.name);
  is_new_ = true;
  *out = std::make_unique<BuiltProgram>(text, layout, pipeline);
  return ok();
}

}  // namespace minnow::vulkan
