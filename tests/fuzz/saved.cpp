// Fuzz target: bytes are given to minnow_restore_states, for a sound model (MINNOW_FUZZ_MODEL, see seeds.py), which
// runs before and after. What is taken is saved again as the same bytes; what is refused changes no state.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "run_model.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace minnow::fuzz {
namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s (%s)\n", what, minnow_last_error());
  std::abort();
}

std::string saved(minnow_session* session) {
  size_t size = 0;
  expect(minnow_save_states(session, nullptr, 0, &size) == MINNOW_OK, "no size of the states");
  std::string bytes(size, '\0');
  expect(minnow_save_states(session, bytes.data(), size, &size) == MINNOW_OK, "the states cannot be saved");
  return bytes;
}

minnow_session* open() {
  minnow_model* model = nullptr;
  minnow_session* session = nullptr;
  const minnow_options options = small_options();
  expect(minnow_load_file(MINNOW_FUZZ_MODEL, &model) == MINNOW_OK, "the model cannot be loaded");
  expect(minnow_create_session(model, &options, &session) == MINNOW_OK, "no session");
  minnow_free_model(model);
  return session;
}

}  // namespace
}  // namespace minnow::fuzz

using namespace minnow::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static minnow_session* const session = open();
  const std::string before = saved(session);
  if (minnow_restore_states(session, data, size) == MINNOW_OK) {
    expect(saved(session) == std::string(reinterpret_cast<const char*>(data), size), "other states than were restored");
    run_session(session, 1);
    expect(minnow_restore_states(session, data, size) == MINNOW_OK, "they cannot be restored again");
  } else {
    expect(saved(session) == before, "states that were refused have changed some");
  }
  return 0;
}

// Half of the files begin as the states that the session has, of which one part is another.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  static const std::string sound = [] {
    minnow_session* session = open();
    const std::string bytes = saved(session);
    minnow_free_session(session);
    return bytes;
  }();
  if (seed % 2 == 0 && sound.size() <= most) {
    size = sound.copy(reinterpret_cast<char*>(data), most);
    const size_t at = seed / 2 % size;
    if (seed % 3 == 0) data[at] = static_cast<uint8_t>(seed >> 16);
    if (seed % 3 == 1) return at;
  }
  return LLVMFuzzerMutate(data, size, most);
}
