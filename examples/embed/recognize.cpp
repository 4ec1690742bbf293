// The engine in a C++ program: recognizes a digit as recognize.c does, with handles that free themselves and errors as
// exceptions. The API is C, so that compilers and standard libraries may differ: C++11 is enough here.
#include <minnow/minnow.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <stdexcept>

static void check(minnow_code code) {
  if (code != MINNOW_OK) throw std::runtime_error(minnow_last_error());
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: recognize_cpp digits.mnn");
  minnow_model* loaded = nullptr;
  check(minnow_load_file(argv[1], &loaded));
  const std::unique_ptr<minnow_model, decltype(&minnow_free_model)> model(loaded, minnow_free_model);

  minnow_session* created = nullptr;
  check(minnow_create_session(model.get(), nullptr, &created));
  const std::unique_ptr<minnow_session, decltype(&minnow_free_session)> session(created, minnow_free_session);

  const char drawing[] = "   ##     ###      ##      ##      ##      ##      ##     ####  ";
  float image[8 * 8];
  std::transform(drawing, drawing + 64, image, [](char ink) { return ink == '#' ? 1.0f : 0.0f; });
  minnow_tensor in = {"image", MINNOW_F32, 4, {1, 1, 8, 8}, image}, out = {};  // no name: the first output
  check(minnow_run(session.get(), &in, 1, &out, 1));

  const float* probability = static_cast<const float*>(out.data);
  const float* best = std::max_element(probability, probability + out.shape[1]);
  std::cout << "a " << best - probability << ", with probability " << *best << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
