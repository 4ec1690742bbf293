// Looks at the nodes of a run, ends one from a function that watches and one from another thread, and reads a value
// between two nodes.
//
//   watch digits.mnn
#include <iostream>
#include <minnow/minnow.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: watch digits.mnn");
  const minnow::Model model(argv[1]);
  minnow::Session session(model);
  std::vector<float> image(8 * 8, 0.5f);
  const std::vector<minnow::Tensor> in{minnow::tensor("image", image, {1, 1, 8, 8})};

  int before = 0, after = 0;
  std::string last;
  session.watch([&](const minnow::Node&) { return ++before > 0; },
                [&](const minnow::Node& node) {
                  ++after;
                  last = node.op() + " gives " + std::to_string(node.output(0).count()) + " numbers";
                  return true;
                });
  session.run(in);
  std::cout << before << " nodes begun, " << after << " done; the last: " << last << '\n';

  session.watch([](const minnow::Node& node) { return node.op() != "Softmax"; });
  try {
    session.run(in);
  } catch (const minnow::Error& error) {
    std::cout << "stopped by the watcher: " << (error.code() == MINNOW_STOPPED) << '\n';
  }

  session.watch([](const minnow::Node&) -> bool { throw std::out_of_range("thrown by the watcher"); });
  try {
    session.run(in);
  } catch (const std::out_of_range& error) {
    std::cout << error.what() << '\n';
  }

  session.watch([&](const minnow::Node&) {
    std::thread([&] { session.cancel(); }).join();
    return true;
  });
  try {
    session.run(in);
  } catch (const minnow::Error& error) {
    std::cout << "cancelled: " << (error.code() == MINNOW_STOPPED) << '\n';
  }

  session.watch({});
  std::cout << session.run(in)[0].count() << " numbers without watchers\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
