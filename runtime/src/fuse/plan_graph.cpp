#include "runtime/src/fuse/plan_graph.h"

#include <algorithm>
#include <utility>

#include "kernels/core/elements.h"
#include "kernels/core/status_guard.h"

namespace minnow {

PlanGraph::PlanGraph(std::vector<PlanNode> nodes, std::vector<PlanValue>& values, const std::vector<int>& read_outside,
                     Precision precision, Watch* watch)
    : values_(values), read_outside_(read_outside), precision_(precision), watch_(watch) {
  reset(std::move(nodes));
}

void PlanGraph::reset(std::vector<PlanNode> nodes) {
  nodes_ = std::move(nodes);
  readers_.assign(values_.size(), {});
  makers_.assign(values_.size(), -1);
  for (int id = 0; id < size(); ++id) link(id);
  for (int v : read_outside_)
    if (v >= 0) readers_[static_cast<size_t>(v)].push_back(kOutside);
}

std::vector<PlanNode> PlanGraph::take() {
  std::vector<PlanNode> left;
  for (PlanNode& node : nodes_)
    if (node.source != nullptr) left.push_back(std::move(node));
  reset({});
  return left;
}

// Every fusion asks is() of every node.
void PlanGraph::go_on() const {
  constexpr int kCalls = 256;
  if (--left_ > 0) return;
  left_ = kCalls;
  const Status status = watch_->go_on();
  if (!status.ok()) throw StatusError(status);
}

bool PlanGraph::is(int id, std::string_view op) const {
  go_on();
  return id >= 0 && is_looked_at(id) && node(id).op != nullptr && node(id).op->name == op;
}

void PlanGraph::place(int id, int device, std::string why) {
  nodes_[static_cast<size_t>(id)].device = device;
  nodes_[static_cast<size_t>(id)].why = std::move(why);
}

std::shared_ptr<const Tensor> PlanGraph::contents(int v) const {
  const InterruptScope scope(watch_);
  std::shared_ptr<const Tensor> tensor;
  if (!is_constant(v) || !value(v).constant->acquire(&tensor).ok()) return nullptr;
  return tensor;
}

std::optional<double> PlanGraph::number(int v) const {
  if (v < 0 || !is_constant(v) || type(v).count() != 1) return std::nullopt;
  const std::shared_ptr<const Tensor> one = contents(v);
  if (one == nullptr) return std::nullopt;
  double number = 0;
  convert_elements(type(v).dtype, one->data, DType::kF64, &number, 1);
  return number;
}

int PlanGraph::add_value(PlanValue value) {
  values_.push_back(std::move(value));
  readers_.emplace_back();
  makers_.push_back(-1);
  return static_cast<int>(values_.size()) - 1;
}

int PlanGraph::only_reader(int v) const {
  const std::vector<int>& all = readers(v);
  return all.size() == 1 ? all[0] : -1;
}

void PlanGraph::link(int id) {
  for (int v : node(id).in)
    if (v >= 0) readers_[static_cast<size_t>(v)].push_back(id);
  for (int v : node(id).out)
    if (v >= 0) makers_[static_cast<size_t>(v)] = id;
}

void PlanGraph::unlink(int id) {
  for (int v : node(id).in) {
    if (v < 0) continue;
    std::vector<int>& readers = readers_[static_cast<size_t>(v)];
    const auto reader = std::find(readers.begin(), readers.end(), id);
    if (reader != readers.end()) readers.erase(reader);
  }
  for (int v : node(id).out)
    if (v >= 0 && makers_[static_cast<size_t>(v)] == id) makers_[static_cast<size_t>(v)] = -1;
}

void PlanGraph::replace(int id, PlanNode node) {
  unlink(id);
  nodes_[static_cast<size_t>(id)] = std::move(node);
  link(id);
}

void PlanGraph::become(int id, const char* op, std::vector<int> in, std::shared_ptr<const Attrs> attrs) {
  nodes_[static_cast<size_t>(id)].op = find_op(op);
  set_attrs(id, std::move(attrs));
  set_inputs(id, std::move(in));
}

void PlanGraph::set_attrs(int id, std::shared_ptr<const Attrs> attrs) {
  nodes_[static_cast<size_t>(id)].attrs = std::move(attrs);
}

void PlanGraph::set_inputs(int id, std::vector<int> in) {
  unlink(id);
  nodes_[static_cast<size_t>(id)].in = std::move(in);
  link(id);
}

void PlanGraph::drop(int id) {
  unlink(id);
  nodes_[static_cast<size_t>(id)] = PlanNode();
}

void PlanGraph::drop_unread() {
  for (int id = size(); id-- > 0;) {
    const std::vector<int>& out = node(id).out;
    if (!is_dropped(id) && std::none_of(out.begin(), out.end(), [&](int v) { return v >= 0 && !readers(v).empty(); }))
      drop(id);
  }
}

}  // namespace minnow
