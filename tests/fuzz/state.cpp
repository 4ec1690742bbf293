// Fuzz target: the states of a sound model (MINNOW_FUZZ_MODEL, see seeds.py) are set to tensors that the bytes
// describe, and the model is run with them. Per tensor: type, rank, sizes, then the numbers, repeated as needed.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "run_model.h"
#include "runtime/src/api/session.h"

namespace minnow::fuzz {
namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  uint8_t next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  bool empty() const { return left_ == 0; }

 private:
  const uint8_t* data_;
  size_t left_;
};

class Sink final : public OutputSink {
 public:
  void* memory(int index, const TensorType& type) override {
    if (type.bytes() > kMostMemory) return nullptr;
    auto& words = memory_[static_cast<size_t>(index)];
    words.assign(static_cast<size_t>(type.bytes()) / 8 + 1, 0);
    return words.data();
  }
  explicit Sink(size_t n) : memory_(n) {}

 private:
  std::vector<std::vector<uint64_t>> memory_;
};

std::shared_ptr<const Model> load() {
  std::shared_ptr<const Model> model;
  const Status status = load_model(MINNOW_FUZZ_MODEL, &model);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::abort();
  }
  return model;
}

void run_once(Session& session, uint8_t size) {
  std::vector<Tensor> inputs;
  std::vector<std::vector<uint64_t>> data;
  for (const TensorInfo& info : session.inputs()) {
    Tensor& tensor = inputs.emplace_back();
    tensor.type.dtype = info.dtype;
    for (const Dim& dim : info.dims) tensor.type.shape.push_back(dim.size < 0 ? 1 + size % 3 : dim.size);
    data.emplace_back(static_cast<size_t>(tensor.type.bytes()) / 8 + 1);
    tensor.data = data.back().data();
  }
  Sink sink(session.outputs().size());
  (void)session.run(inputs, sink);
}

}  // namespace
}  // namespace minnow::fuzz

using namespace minnow;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const Model> model = fuzz::load();
  SessionOptions options;
  options.threads = 1;
  options.limits = {fuzz::kMostMilliseconds / 1e3, fuzz::kMostMemory, fuzz::kMostRounds};
  std::unique_ptr<Session> session;
  if (!Session::create(model, options, &session).ok()) return 0;
  fuzz::Bytes bytes(data, size);
  for (int round = 0; round < 3 && !bytes.empty(); ++round) {
    const size_t n = bytes.next() % 4 == 0 ? bytes.next() % 5 : model->states.size();
    const bool fitting = bytes.next() % 2 == 0;
    std::vector<Tensor> tensors(n);
    std::vector<std::vector<uint64_t>> memory;
    for (size_t i = 0; i < n; ++i) {
      Tensor& tensor = tensors[i];
      if (fitting && i < model->states.size()) {
        tensor.type = model->states[i].type();
      } else {
        tensor.type.dtype = static_cast<DType>(bytes.next() % kDTypes);
        for (int k = bytes.next() % (kMaxRank + 1); k > 0; --k) tensor.type.shape.push_back(bytes.next() % 6);
        if (tensor.type.bytes() > fuzz::kMostMemory) tensor.type.shape = Shape{};
      }
      memory.emplace_back(static_cast<size_t>(tensor.type.bytes()) / 8 + 1);
      auto* to = reinterpret_cast<uint8_t*>(memory.back().data());
      for (int64_t at = 0; at < tensor.type.bytes(); ++at) to[at] = bytes.next();
      tensor.data = memory.back().data();
    }
    (void)session->reset(bytes.next() % 5 == 0 ? nullptr : &tensors);
    fuzz::run_once(*session, bytes.next());
    std::vector<Tensor> states;
    (void)session->states(&states);
  }
  return 0;
}
