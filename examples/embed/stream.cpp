// States of a streaming model: saved in the middle of a stream, and restored in another session, which goes on there.
// Any model with states will do whose inputs are one vector of floats.
//
//   stream counter.mnn
#include <iostream>
#include <minnow/minnow.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

static float step(minnow::Session& session, float value) {
  const minnow::Info input = session.inputs().at(0);
  minnow::Tensor in = minnow::shape_of(nullptr, MINNOW_F32, {});
  std::size_t count = 1;
  for (std::int64_t size : input.shape) {
    in.shape[in.rank++] = size < 0 ? 1 : size;
    count *= static_cast<std::size_t>(in.shape[in.rank - 1]);
  }
  std::vector<float> numbers(count, value);
  in.minnow_tensor::data = numbers.data();
  const minnow::Tensor out = session.run({in}).at(0);
  const auto results = out.data<float>();
  return std::accumulate(results.begin(), results.end(), 0.0f);
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: stream model.mnn");
  const minnow::Model model(argv[1]);
  minnow::Session first(model), second(model);
  std::cout << first.states().size() << " states\n";
  step(first, 1);
  step(first, 2);

  const std::vector<std::uint8_t> saved = first.save_states();
  const float goes_on = step(first, 3);
  second.restore_states(saved);
  std::cout << "goes on alike: " << (step(second, 3) == goes_on) << '\n';

  first.reset();
  const float fresh = step(first, 1);
  const std::string name = first.states()[0].name;
  const minnow::Tensor state = first.state(name.c_str());
  std::vector<float> zeros(state.count());
  minnow::Tensor value(state);
  value.minnow_tensor::data = zeros.data();
  second.reset();
  second.set_state(value);
  std::cout << "from zero alike: " << (step(second, 1) == fresh) << '\n';

  std::vector<std::uint8_t> damaged(saved.begin(), saved.end() - 1);
  try {
    second.restore_states(damaged);
  } catch (const minnow::Error& error) {
    std::cout << "error " << error.code() << ": " << error.what() << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
