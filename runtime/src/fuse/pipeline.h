// The fusions: several nodes of a stage become one, which goes over memory once.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/src/backend/backend.h"
#include "runtime/src/fuse/plan_graph.h"

namespace minnow {

struct Fusion {
  const char* name;
  void (*apply)(PlanGraph&);
  // The op that its nodes become; it is left out where there is none of that name. Null: it looks for itself.
  const char* makes;

  // reason: for its place, and who needs it. It is for readers of the table, and no part of the library.
  Fusion(const char* name, void (*apply)(PlanGraph&), const char* makes, [[maybe_unused]] const char* reason)
      : name(name), apply(apply), makes(makes) {}
};

// What some kinds of device (Backend::kernels()) have kernels for. No other kind gets it.
struct DeviceFusion {
  Fusion fusion;
  std::vector<std::string_view> devices;
};

// In order: for every device, and for those that each names.
const std::vector<Fusion>& common_fusions();
const std::vector<DeviceFusion>& device_fusions();

// Applies the fusions for every device, and then those for one to the nodes that the graph looks at.
void fuse_for_all(PlanGraph& graph);
void fuse_for_device(const Backend& device, PlanGraph& graph);

void fuse_attention(PlanGraph& graph);
void fuse_byte_arithmetic(PlanGraph& graph);
void fuse_channel_norms(PlanGraph& graph);
void fuse_elementwise(PlanGraph& graph);
void fuse_epilogues(PlanGraph& graph);
void fuse_gates(PlanGraph& graph);
void fuse_log_softmax(PlanGraph& graph);
void fuse_quantized_rows(PlanGraph& graph);
void fuse_rectified(PlanGraph& graph);
void fuse_separable(PlanGraph& graph);
void fuse_quantized_tables(PlanGraph& graph);
void fuse_requantization(PlanGraph& graph);
void fuse_rows(PlanGraph& graph);
void fuse_spelled(PlanGraph& graph);
void join_channels(PlanGraph& graph);
void keep_half_images(PlanGraph& graph);
// Whether a convolution is depthwise, and computed on such images where others leave them.
bool takes_half_depthwise(const PlanGraph& graph, int id);
void keep_half_rows(PlanGraph& graph);
void keep_stored_weights(PlanGraph& graph);
void pair_convolutions(PlanGraph& graph);
void pool_spatial_means(PlanGraph& graph);

}  // namespace minnow
