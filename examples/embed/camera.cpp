// Zero-copy: one buffer for the pixels and one for the result, both the program's; nothing is allocated or copied in
// the loop. The session is prepared for other batch sizes beforehand, where the model allows them.
//
//   camera digits.mnn
#include <array>
#include <chrono>
#include <iostream>
#include <minnow/minnow.hpp>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: camera digits.mnn");
  minnow::set_logger(
      [](bool is_error, const char* message) { std::cerr << (is_error ? "error: " : "note: ") << message << '\n'; });
  minnow::Options options;
  options.timeout = std::chrono::seconds(10);
  minnow::Session session(minnow::Model(argv[1]), options);

  std::vector<float> frame(8 * 8);
  std::array<float, 10> probability{};
  const std::vector<minnow::Tensor> in{minnow::tensor("image", frame, {1, 1, 8, 8})};
  const std::vector<minnow::Tensor> out{minnow::tensor("probability", probability, {1, 10})};
  session.prepare(in);  // the first frame takes no longer than the others

  for (int shift = 0; shift < 3; ++shift) {  // a vertical stroke that moves to the right
    for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<int>(i % 8) == 2 + shift ? 1.0f : 0.0f;
    session.run_into(in, out);
    std::size_t best = 0;
    for (std::size_t digit = 1; digit < probability.size(); ++digit)
      if (probability[digit] > probability[best]) best = digit;
    std::cout << "frame " << shift << ": a " << best << '\n';
  }

  // A wrong shape is an error that says what is wrong; this one is wanted as a status.
  std::array<float, 4> small{};
  const minnow::Tensor wrong = minnow::tensor("image", small, {1, 1, 2, 2});
  minnow::Tensor result;
  const minnow::Status status = session.try_run({&wrong, 1}, {&result, 1});
  std::cout << "status " << status.code() << ": " << status.message() << '\n';
} catch (const minnow::Error& error) {
  std::cerr << "error " << error.code() << ": " << error.what() << '\n';
  return error.code();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
