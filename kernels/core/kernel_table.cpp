#include "kernels/core/kernel_table.h"

#include <cstdio>
#include <cstdlib>

namespace minnow {
namespace {

class SimpleKernel final : public Kernel {
 public:
  SimpleKernel(SimpleFunction run, const Attrs& attrs) : run_(run), attrs_(attrs) {}
  void run(const RunContext& context) override { run_(attrs_, context); }

 private:
  SimpleFunction run_;
  const Attrs& attrs_;
};

}  // namespace

std::unique_ptr<Kernel> simple_kernel(SimpleFunction run, const NodeContext& node) {
  return std::make_unique<SimpleKernel>(run, node.attrs);
}

void KernelTable::add(const char* op, const KernelRow& row) {
  if (!rows_.emplace(op, row).second) {
    std::fprintf(stderr, "minnow: there are two kernels for the op %s\n", op);
    std::abort();
  }
}

const KernelRow* KernelTable::find(const std::string& op) const {
  const auto it = rows_.find(op);
  return it == rows_.end() ? nullptr : &it->second;
}

std::vector<std::string> KernelTable::ops() const {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) names.push_back(name);
  return names;
}

}  // namespace minnow
