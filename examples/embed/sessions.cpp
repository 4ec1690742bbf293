// Several models and sessions at the same time: all share one thread pool, whose threads let
// others go first. Each session gives what it gives alone. Then two that take turns in one arena.
//
//   sessions digits.mnn other.mnn ...
#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <minnow/minnow.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: sessions digits.mnn ...");
  minnow::set_workers({}, 5);
  try {
    minnow::set_workers({100000});
  } catch (const minnow::Error& error) {
    std::cout << "error " << error.code() << ": " << error.what() << '\n';
  }

  std::vector<minnow::Model> models;
  for (int i = 1; i < argc; ++i) models.emplace_back(std::string(argv[i]));
  minnow::Options options;
  options.threads = 2;
  std::vector<float> image(8 * 8, 0.25f);
  const std::vector<minnow::Tensor> in{minnow::tensor("image", image, {1, 1, 8, 8})};

  minnow::Session alone(models[0], options);
  const minnow::Tensor result = alone.run(in)[0];
  const std::vector<float> expected(result.data<float>().begin(), result.data<float>().end());

  std::atomic<int> alike{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      minnow::Session session(models[static_cast<std::size_t>(i) % models.size()], options);
      for (int k = 0; k < 50; ++k) {
        const auto out = session.run(in)[0].data<float>();
        alike += std::equal(out.begin(), out.end(), expected.begin(), expected.end());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::cout << alike << " of 200 results alike\n";

  const minnow::Arena arena;
  options.arena = arena.get();
  minnow::Session first(models.front(), options), second(models.back(), options);
  first.run(in);
  const auto bytes = first.stats().arena_bytes;
  const auto out = second.run(in)[0].data<float>();
  const bool is_same = std::equal(out.begin(), out.end(), expected.begin(), expected.end());
  std::cout << (is_same ? "alike" : "different") << " in the arena, which "
            << (second.stats().arena_bytes == bytes ? "stays as large" : "grows") << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
