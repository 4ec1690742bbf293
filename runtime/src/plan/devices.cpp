// Which device runs what: a minimum of the time that nodes and copies between devices are estimated to take. And in
// which order queues get their work, and when one waits for another.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "runtime/src/plan/minimum_cut.h"
#include "runtime/src/backend/plugin.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g us", seconds * 1e6);
  return text;
}

}  // namespace

// Of constants the types alone: the contents are not needed yet.
NodeContext Planner::types_of(const PlanNode& node, std::vector<Tensor>* constants) const {
  constants->resize(node.in.size());
  NodeContext context{*node.attrs, {}, std::vector<const Tensor*>(node.in.size()), {}};
  context.threads = x_.environment_.pool->threads();
  context.precision = x_.environment_.precision;
  for (size_t i = 0; i < node.in.size(); ++i) {
    const PlanValue* value = node.in[i] < 0 ? nullptr : &stage_.values[static_cast<size_t>(node.in[i])];
    context.in.push_back(value == nullptr ? nullptr : &value->type);
    if (value == nullptr || value->constant == nullptr) continue;
    (*constants)[i].type = value->type;
    context.constant[i] = &(*constants)[i];
  }
  for (int v : node.out) context.out.push_back(v < 0 ? nullptr : &stage_.values[static_cast<size_t>(v)].type);
  return context;
}

// What the node takes on a device; below 0, with the reason, where it cannot run.
double Planner::estimate(const PlanNode& node, size_t device, std::string* why) {
  if (node.op == nullptr) {
    *why = "control flow runs on the host";
    return device == 0 ? 0 : -1;
  }
  const Device& to = x_.devices()[device];
  if (device != 0 && to.backend->find(*node.op) == nullptr) {
    *why = to.backend->name() + " has no kernel for " + node.op->name;
    return -1;
  }
  if (is_view(node, stage_.values)) return 0;
  std::vector<Tensor> constants;
  const NodeContext types = types_of(node, &constants);
  const double seconds = to.backend->seconds(*node.op, types, why);
  if (seconds < 0) *why = to.backend->name() + " " + *why;
  if (seconds < 0 || !to.speed.is_known()) return seconds;
  double bytes = 0;
  for (const auto* tensors : {&types.in, &types.out})
    for (const TensorType* type : *tensors) bytes += type == nullptr ? 0 : static_cast<double>(type->bytes());
  const double macs = node.op->macs == nullptr ? 0 : static_cast<double>(node.op->macs(types));
  return to.speed.launch + std::max(2 * macs / to.speed.flops, bytes / to.speed.bytes);
}

// Each node on the first of the other devices that computes it; or only on that one.
Status Planner::place_wherever_possible(PlanGraph& graph, int only) {
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.is_dropped(i)) continue;
    if (is_view(graph.node(i), stage_.values)) {
      const int maker = graph.maker(graph.node(i).in[0]);
      graph.place(i, maker < 0 ? 0 : graph.node(maker).device, "");
      continue;
    }
    std::string reasons;
    for (size_t device = 1; device < x_.devices().size(); ++device) {
      if (only > 0 && device != static_cast<size_t>(only)) continue;
      std::string why;
      const double seconds = estimate(graph.node(i), device, &why);
      if (seconds >= 0) {
        graph.place(i, static_cast<int>(device),
                    only > 0 ? "all that " + x_.backend(only).name() + " computes" : "MINNOW_PLACEMENT=greedy");
        break;
      }
      reasons += (reasons.empty() ? "" : "; ") + why;
    }
    if (graph.node(i).device == 0) graph.place(i, 0, reasons);
  }
  return ok();
}

// Each node where it is done first, given what each device has got to do so far: so that independent chains run at the
// same time. Nodes with the longest way to the end come first.
Status Planner::place_side_by_side(PlanGraph& graph) {
  const Devices& devices = x_.devices();
  const size_t n = static_cast<size_t>(graph.size()), count = devices.size();
  std::vector<std::vector<double>> seconds(n, std::vector<double>(count));
  std::vector<std::vector<std::string>> why(n, std::vector<std::string>(count));
  std::vector<double> way(n);  // to the end, in seconds
  std::vector<size_t> order;
  const auto copy_seconds = [&](int value, size_t device) {
    return device == 0 ? 0.0 : devices[device].copy_seconds(graph.type(value).bytes());
  };
  for (size_t i = n; i-- > 0;) {
    if (graph.is_dropped(static_cast<int>(i))) continue;
    const PlanNode& node = graph.node(static_cast<int>(i));
    double mean = 0;
    for (size_t device = 0; device < count; ++device) {
      seconds[i][device] = estimate(node, device, &why[i][device]);
      mean += std::max(seconds[i][device], 0.0) / static_cast<double>(count);
    }
    for (int v : node.out)
      for (int reader : v < 0 ? std::vector<int>() : graph.readers(v))
        if (reader >= 0) way[i] = std::max(way[i], way[static_cast<size_t>(reader)]);
    way[i] += mean + 1e-12;
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return way[a] != way[b] ? way[a] > way[b] : a < b; });
  std::vector<double> free(count), done(n);
  for (size_t i : order) {
    const PlanNode& node = graph.node(static_cast<int>(i));
    double best = -1;
    size_t best_device = 0;
    for (size_t device = 0; device < count; ++device) {
      if (seconds[i][device] < 0) continue;
      double start = free[device];
      for (int v : node.in) {
        if (v < 0 || !graph.value(v).known || graph.is_constant(v)) continue;
        const int maker = graph.maker(v);
        const size_t from = maker < 0 ? 0 : static_cast<size_t>(graph.node(maker).device);
        const double there = maker < 0 ? 0 : done[static_cast<size_t>(maker)];
        start = std::max(start, from == device ? there : there + copy_seconds(v, from) + copy_seconds(v, device));
      }
      const double end = start + seconds[i][device];
      double delivered = end;
      for (int v : node.out)
        for (int reader : v < 0 ? std::vector<int>() : graph.readers(v))
          if (reader < 0) delivered = std::max(delivered, end + copy_seconds(v, device));
      if (best >= 0 && delivered >= best) continue;
      best = delivered;
      best_device = device;
      done[i] = end;
    }
    free[best_device] = done[i];
    std::string reason;
    for (size_t device = 0; device < count; ++device) {
      const std::string name = devices[device].backend->name();
      const std::string text =
          seconds[i][device] < 0 ? why[i][device] : microseconds(seconds[i][device]) + " on " + name;
      reason += (reason.empty() ? "" : ", ") + text;
    }
    graph.place(static_cast<int>(i), static_cast<int>(best_device), "done first there: " + reason);
  }
  return ok();
}

// The values of states that a node writes in place: they stay in the memory of its device.
std::set<int> Planner::states_in_place() const {
  std::set<int> values;
  const Model& model = x_.model_;
  if (&x_.graph_ != &model.main) return values;
  for (size_t i = 0; i < model.states.size(); ++i) {
    if (!model.states[i].in_place) continue;
    values.insert(x_.graph_.inputs[model.inputs.size() + i]);
    values.insert(x_.graph_.outputs[model.outputs.size() + i]);
  }
  return values;
}

// Begins with all on the host. Then each device takes from the others the nodes by which the whole gets faster: a
// minimum cut between "runs there" and "stays where it is".
Status Planner::assign_devices(PlanGraph& graph) {
  const Devices& devices = x_.devices();
  if (!kHasOtherDevices || devices.size() == 1) return ok();
  if (devices.is_greedy()) return place_wherever_possible(graph, 0);
  const int placing = x_.placing();
  if (placing == 0) return ok();
  if (placing > 0) return place_wherever_possible(graph, placing);
  if (placing == Trials::kSideBySide) return place_side_by_side(graph);
  const size_t n = static_cast<size_t>(graph.size());
  const auto node = [&](size_t i) -> const PlanNode& { return graph.node(static_cast<int>(i)); };
  std::vector<double> now(n);
  for (size_t i = 0; i < n; ++i) {
    std::string why;
    if (!graph.is_dropped(static_cast<int>(i)))
      now[i] = std::max(estimate(node(i), 0, &why), 0.0) * devices.preference();
  }

  const std::set<int> stay = states_in_place();
  for (size_t device = 1; device < devices.size(); ++device) {
    const Backend& backend = *devices[device].backend;
    MinimumCut cut;
    std::vector<size_t> at(n);
    std::vector<double> there(n);
    std::vector<std::string> why(n);
    for (size_t i = 0; i < n; ++i) {
      at[i] = cut.add_node();
      if (graph.is_dropped(static_cast<int>(i))) continue;
      there[i] = estimate(node(i), device, &why[i]);
      // The first side stays, the second moves.
      cut.add(at[i], MinimumCut::kSecond, now[i]);
      cut.add(MinimumCut::kFirst, at[i], there[i] < 0 ? MinimumCut::kNever : there[i]);
    }
    for (int v = 0; v < graph.num_values(); ++v) {
      if (!graph.value(v).known || graph.is_constant(v) || graph.readers(v).empty() || stay.count(v) != 0) continue;
      const Form here{Layout::kPlain, static_cast<uint8_t>(device)};
      const int maker = graph.maker(v);  // -1: the host, or a device that has it already
      if (maker < 0 && stage_.find(v, here) != nullptr) continue;
      const double cost = devices[device].copy_seconds(graph.type(v).bytes());
      const size_t from = maker < 0 ? MinimumCut::kFirst : at[static_cast<size_t>(maker)];
      // One copy, however many read it: between the maker and one node that stands for the readers of a side.
      const size_t stays = cut.add_node(), moves = cut.add_node();
      cut.add(from, moves, cost);  // made where it was, read there
      cut.add(stays, from, cost);  // made there, read where it was
      for (int reader : graph.readers(v)) {
        const size_t to = reader < 0 ? MinimumCut::kFirst : at[static_cast<size_t>(reader)];
        cut.add(moves, to, MinimumCut::kNever);
        cut.add(to, stays, MinimumCut::kNever);
      }
    }
    const std::vector<bool> moved = cut.solve();
    for (size_t i = 0; i < n; ++i) {
      if (graph.is_dropped(static_cast<int>(i))) continue;
      const int was = node(i).device;
      const std::string& before = node(i).why;
      if (moved[at[i]]) {
        const double left = was == 0 ? now[i] / devices.preference() : now[i];
        graph.place(static_cast<int>(i), static_cast<int>(device),
                    microseconds(there[i]) + " on " + backend.name() + ", " + microseconds(left) + " on " +
                        devices[static_cast<size_t>(was)].backend->name());
        now[i] = there[i];
      } else {
        const std::string text = there[i] < 0
                                     ? why[i]
                                     : "with its copies it takes longer on " + backend.name() + ": " +
                                           microseconds(there[i]) + " without them, " + microseconds(now[i]) + " here";
        graph.place(static_cast<int>(i), was, before.empty() ? text : before + "; " + text);
      }
    }
  }
  return ok();
}

// Steps in the order in which what can go to another device goes there first, and what waits for such a device comes
// last: while the device works, the host does.
void Planner::begin_devices_early() {
  if constexpr (!kHasOtherDevices) return;
  const size_t n = stage_.steps.size();
  const bool all_here =
      std::all_of(stage_.steps.begin(), stage_.steps.end(), [](const Step& s) { return s.device == 0; });
  if (all_here) return;
  std::map<const Storage*, size_t> makers;
  std::vector<std::vector<size_t>> next(n);
  std::vector<size_t> missing(n);
  std::vector<bool> waits(n);  // for a device
  for (size_t i = 0; i < n; ++i) {
    const Step& step = stage_.steps[i];
    for (const Slot* slot : step.in) {
      const auto maker = slot == nullptr ? makers.end() : makers.find(slot->storage);
      if (maker == makers.end()) continue;
      next[maker->second].push_back(i);
      ++missing[i];
      const Step& made = stage_.steps[maker->second];
      waits[i] = waits[i] || (step.device == 0 && made.device != 0);
    }
    for (const Slot* slot : step.out)
      if (slot != nullptr) makers[slot->storage] = i;
  }
  // Three kinds of steps that can begin: on devices, on the host, on the host after a device. Each in its order.
  std::set<size_t> ready[3];
  const auto add = [&](size_t i) { ready[stage_.steps[i].device != 0 ? 0 : waits[i] ? 2 : 1].insert(i); };
  for (size_t i = 0; i < n; ++i)
    if (missing[i] == 0) add(i);
  std::vector<Step> steps;
  steps.reserve(n);
  while (steps.size() < n) {
    std::set<size_t>& kind = !ready[0].empty() ? ready[0] : !ready[1].empty() ? ready[1] : ready[2];
    const size_t i = *kind.begin();
    kind.erase(kind.begin());
    for (const Slot* slot : stage_.steps[i].out)
      if (slot != nullptr) slot->storage->first = slot->storage->last = static_cast<int>(steps.size());
    for (size_t k : next[i])
      if (--missing[k] == 0) add(k);
    steps.push_back(std::move(stage_.steps[i]));
  }
  stage_.steps = std::move(steps);
}

// Before which steps a queue has to be done, because the host reads what it has copied; and before which copies to a
// device its queue has to wait for another one.
void Planner::order_queues() {
  if constexpr (!kHasOtherDevices) return;
  const size_t n = stage_.steps.size();
  std::vector<const Group*> group_of(n);
  for (const Group& group : stage_.groups)
    for (size_t i = group.ends.front(); i < group.ends.back(); ++i) group_of[i] = &group;
  std::map<const Storage*, std::pair<int, size_t>> downloads;  // the device and the step
  std::vector<size_t> finished(x_.devices().size());           // steps before this one are done
  for (size_t i = 0; i < n; ++i) {
    Step& step = stage_.steps[i];
    if (step.device != 0) stage_.devices |= 1u << step.device;
    const size_t at = group_of[i] != nullptr ? group_of[i]->ends.front() : i;
    for (const Slot* slot : step.in) {
      const auto made = slot == nullptr ? downloads.end() : downloads.find(slot->storage);
      if (made == downloads.end()) continue;
      const auto& [device, download] = made->second;
      if (finished[static_cast<size_t>(device)] > download || device == step.device) continue;
      if (step.device != 0) {
        step.follows |= 1u << device;
      } else {
        stage_.steps[at].finishes |= 1u << device;
        finished[static_cast<size_t>(device)] = at;
      }
    }
    // What control flow runs may use any queue.
    if (step.is_transfer && step.out[0]->storage->device == 0) downloads[step.out[0]->storage] = {step.device, i};
  }
}

void Planner::find_recordables() {
  if (!kHasOtherDevices || stage_.devices == 0) return;
  find_recordables(false, &stage_.recordables);
  find_recordables(true, &stage_.with_copies);
}

// Steps of one device in a row, with nothing between them.
void Planner::find_recordables(bool with_copies, std::vector<Recordable>* parts) const {
  const size_t n = stage_.steps.size();
  // Where there are states in place, only copies of states are recorded: other inputs come from the host, mostly.
  const bool states = with_copies && !states_in_place().empty();
  const auto given = [&](const Step& step) -> const Slot* {  // by the caller, what a copy reads or writes
    for (const auto* slots : {&step.in, &step.out})
      for (const Slot* slot : *slots) {
        const Storage& root = *slot->storage->root();
        if (root.kind != Storage::kInput && root.kind != Storage::kOutput) continue;
        const size_t first = root.kind == Storage::kInput ? x_.model_.inputs.size() : x_.model_.outputs.size();
        if (!states || static_cast<size_t>(root.index) >= first) return slot;
      }
    return nullptr;
  };
  for (size_t i = 0; i < n;) {
    const auto fits = [&](size_t k) {
      const Step& step = stage_.steps[k];
      return k < n && step.device == stage_.steps[i].device &&
             (!step.is_transfer || (with_copies && given(step) != nullptr)) &&
             (k == i || (step.finishes == 0 && step.follows == 0));
    };
    size_t end = i;
    while (end < n && fits(end)) ++end;
    Recordable part;
    part.device = stage_.steps[i].device;
    part.begin = i;
    part.end = end;
    for (size_t k = i; k < end; ++k)
      if (stage_.steps[k].is_transfer) part.given.push_back(given(stage_.steps[k]));
    const bool can = part.device != 0 && x_.devices()[static_cast<size_t>(part.device)].queue->can_record();
    if (can && end - i > 1 && part.given.empty() != with_copies) parts->push_back(std::move(part));
    i = std::max(end, i + 1);
  }
}

// A queue reads and writes the host's memory some time before it is finished: until then it stays.
void Planner::keep_for_queues() {
  if (!kHasOtherDevices || stage_.devices == 0) return;
  const int n = static_cast<int>(stage_.steps.size());
  std::vector<int> next(x_.devices().size(), n);  // the step before which the queue is finished
  for (int i = n - 1; i >= 0; --i) {
    const Step& step = stage_.steps[static_cast<size_t>(i)];
    if (step.is_transfer)
      for (const auto* slots : {&step.in, &step.out})
        for (Slot* slot : *slots)
          if (slot->storage->device == 0)
            slot->storage->last = std::max(slot->storage->last, next[static_cast<size_t>(step.device)]);
    for (size_t device = 1; device < next.size(); ++device)
      if (step.finishes >> device & 1) next[device] = i;
  }
}

}  // namespace minnow
