// What the C API promises of threads, all at once: sessions that share weights, one session used by several threads,
// callbacks, cancel and timeouts from elsewhere, models that come and go. For ThreadSanitizer and AddressSanitizer.
//
// usage: side_by_side CASES THREADS ROUNDS
//
// Prints nothing and returns 0 when every result was that of a session by itself.
#include <atomic>
#include <functional>
#include <thread>

#include "cases.h"

namespace {

minnow_session* open(const Case& c, int threads, minnow_model** model, minnow_arena* arena = nullptr) {
  minnow_options options = MINNOW_OPTIONS;
  options.threads = threads;
  options.arena = arena;
  minnow_session* session = nullptr;
  if (*model == nullptr)
    expect(minnow_load_memory(c.file.data(), c.file.size(), model) == MINNOW_OK, "cannot be loaded");
  expect(minnow_create_session(*model, &options, &session) == MINNOW_OK, "no session");
  return session;
}

// As often as asked, from a new session: a model with states goes on from run to run.
std::vector<Results> alone(const Case& c, int threads, int runs) {
  minnow_model* model = nullptr;
  minnow_session* session = open(c, threads, &model);
  std::vector<Results> all(static_cast<size_t>(runs));
  for (Results& results : all) expect(run_case(session, c, &results) == MINNOW_OK, "does not run");
  minnow_free_session(session);
  minnow_free_model(model);
  return all;
}

void together(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(work, i);
  for (std::thread& thread : all) thread.join();
}

// Sessions of one model, made and used at the same time: they share its weights, which the first of them packs.
void share_weights(const Case& c, int threads, int rounds) {
  const std::vector<Results> want = alone(c, 1, rounds);
  minnow_model* model = nullptr;
  minnow_free_session(open(c, 1, &model));
  std::atomic<int> waiting{threads};
  together(threads, [&](int i) {
    --waiting;
    while (waiting > 0) std::this_thread::yield();
    minnow_session* session = open(c, 1 + i % 3, &model);
    for (int k = 0; k < rounds; ++k) {
      Results results;
      expect(run_case(session, c, &results) == MINNOW_OK, "a session beside others does not run");
      expect(results == want[static_cast<size_t>(k)], "a session beside others gives other results");
    }
    minnow_free_session(session);
  });
  minnow_free_model(model);
}

// Everything that may be called of one session, from all threads: each call waits for the others.
void share_session(const Case& c, int threads, int rounds) {
  minnow_model* model = nullptr;
  minnow_session* session = open(c, 2, &model);
  minnow_free_model(model);  // may go before its sessions
  together(threads, [&](int i) {
    for (int k = 0; k < rounds; ++k) {
      minnow_stats stats = MINNOW_STATS;
      minnow_tensor_info info = MINNOW_TENSOR_INFO;
      expect(run_case(session, c, nullptr) == MINNOW_OK, "a shared session does not run");
      expect(minnow_get_stats(session, &stats) == MINNOW_OK, "no stats");
      expect(minnow_num_outputs(session) == 0 || minnow_output_info(session, 0, &info) == MINNOW_OK, "no info");
      if (i % 2 == 0) expect(minnow_reset(session) == MINNOW_OK, "no reset");
      if (i % 2 == 1) expect(minnow_set_timeout(session, k % 2 == 0 ? 100000 : 0) == MINNOW_OK, "no timeout");
    }
  });
  minnow_free_session(session);
}

// Its states, by all functions that know them, while others run it.
void share_states(const Case& c, int threads, int rounds) {
  minnow_model* model = nullptr;
  minnow_session* session = open(c, 1, &model);
  minnow_free_model(model);
  const size_t n = minnow_num_states(session);
  if (n == 0) return minnow_free_session(session);
  expect(run_case(session, c, nullptr) == MINNOW_OK, "a model with states does not run");
  together(threads, [&](int i) {
    for (int k = 0; k < 20 * rounds; ++k) {
      std::vector<minnow_tensor> states(n);
      size_t size = 0;
      if (i % 3 == 0)
        expect(run_case(session, c, nullptr) == MINNOW_OK, "a session whose states are used does not run");
      if (i % 3 == 1) {
        expect(minnow_save_states(session, nullptr, 0, &size) == MINNOW_OK, "no size of the states");
        std::string saved(size, '\0');
        expect(minnow_save_states(session, saved.data(), size, &size) == MINNOW_OK, "the states cannot be saved");
        expect(minnow_restore_states(session, saved.data(), size) == MINNOW_OK, "the states cannot be restored");
      }
      if (i % 3 != 2) continue;
      expect(minnow_get_states(session, states.data(), n) == MINNOW_OK, "no states");
      std::vector<std::string> numbers;
      for (minnow_tensor& state : states) {
        numbers.emplace_back(size_of(state), '\0');  // its data is another thread's as soon as that runs the model
        state.data = numbers.back().data();
      }
      expect(minnow_set_states(session, states.data(), n) == MINNOW_OK, "the states cannot be set");
      if (k % 5 == 0) expect(minnow_reset(session) == MINNOW_OK, "no reset");
    }
  });
  minnow_free_session(session);
}

struct Seen {
  minnow_session *own = nullptr, *other = nullptr;
  const Case* c = nullptr;
  std::atomic<long> nodes{0};
  int32_t answer = 0;
};

int32_t see(void* user, const minnow_node* node) {
  Seen& seen = *static_cast<Seen*>(user);
  ++seen.nodes;
  if (node->outputs != nullptr) return seen.answer;
  minnow_stats stats = MINNOW_STATS;
  expect(minnow_get_stats(seen.own, &stats) == MINNOW_USAGE, "a callback may use its own session");
  expect(run_case(seen.own, *seen.c, nullptr) == MINNOW_USAGE, "a callback may run its own session");
  if (seen.other != nullptr)
    expect(run_case(seen.other, *seen.c, nullptr) == MINNOW_OK, "a callback may not run another session");
  return 0;
}

// Callbacks that run another session, and end the run, while other threads set and take them away.
void call_back(const Case& c, int threads, int rounds) {
  const Results want = alone(c, 1, 1)[0];
  minnow_model* model = nullptr;
  minnow_session* shared = open(c, 1, &model);
  together(threads, [&](int) {
    minnow_session* session = open(c, 2, &model);
    Seen seen;
    seen.own = session;
    seen.other = shared;
    seen.c = &c;
    expect(minnow_set_callback(session, see, &seen) == MINNOW_OK, "no callback");
    Results results;
    expect(run_case(session, c, &results) == MINNOW_OK && results == want, "other results with a callback");
    seen.answer = 1;
    const minnow_code code = run_case(session, c, nullptr);
    expect(seen.nodes == 0 || code == MINNOW_STOPPED, "a callback has not ended the run");
    std::thread setter([&] {
      for (int k = 0; k < rounds; ++k) minnow_set_callback(session, nullptr, nullptr);
    });
    for (int k = 0; k < rounds; ++k) run_case(session, c, nullptr);
    setter.join();
    minnow_free_session(session);
  });
  minnow_free_session(shared);
  minnow_free_model(model);
}

// Cancelled at any moment, and with a timeout that passes: the next run is right.
void stop(const Case& c, int threads, int rounds) {
  const std::vector<Results> want = alone(c, 1, 1);
  minnow_model* model = nullptr;
  minnow_free_session(open(c, 1, &model));
  together(threads, [&](int i) {
    minnow_session* session = open(c, 1 + i % 2, &model);
    std::atomic<bool> over{false};
    std::thread canceller([&] {
      for (int k = 0; !over; ++k) {
        minnow_cancel(session);
        minnow_set_timeout(session, 1 + k % 2);
        std::this_thread::yield();
      }
    });
    for (int k = 0; k < rounds; ++k) {
      const minnow_code code = run_case(session, c, nullptr);
      expect(code == MINNOW_OK || code == MINNOW_STOPPED, "cancelled, and came to " + std::to_string(code));
    }
    over = true;
    canceller.join();
    Results results;
    expect(minnow_set_timeout(session, 0) == MINNOW_OK && minnow_reset(session) == MINNOW_OK, "no reset");
    expect(run_case(session, c, &results) == MINNOW_OK && results == want[0], "other results after a cancel");
    minnow_free_session(session);
  });
  minnow_free_model(model);
}

// Sessions of two models in one arena, which moves when one of them needs more; its handle goes before they do.
void share_arena(const Case& first, const Case& second, int threads, int rounds) {
  const std::vector<Results> want[2] = {alone(first, 1, rounds), alone(second, 1, rounds)};
  minnow_arena* arena = nullptr;
  expect(minnow_create_arena(&arena) == MINNOW_OK, "no arena");
  std::atomic<int> waiting{threads};
  together(threads, [&](int i) {
    minnow_model* model = nullptr;
    minnow_session* session = open(i % 2 == 0 ? first : second, 1 + i % 3, &model, arena);
    minnow_free_model(model);
    if (--waiting == 0) minnow_free_arena(arena);
    for (int k = 0; k < rounds; ++k) {
      Results results;
      minnow_stats stats = MINNOW_STATS;
      expect(run_case(session, i % 2 == 0 ? first : second, &results) == MINNOW_OK, "it does not run in an arena");
      expect(results == want[i % 2][static_cast<size_t>(k)], "other results in a shared arena");
      expect(minnow_get_stats(session, &stats) == MINNOW_OK, "no stats");
    }
    minnow_free_session(session);
  });
}

// Models and sessions come and go while others are used.
void come_and_go(const std::vector<Case>& cases, int threads, int rounds) {
  together(threads, [&](int i) {
    for (int k = 0; k < rounds; ++k) {
      const Case& c = cases[static_cast<size_t>(i + k) % cases.size()];
      minnow_model* model = nullptr;
      minnow_session* session = open(c, 1 + k % 3, &model);
      if (k % 2 == 0) minnow_free_model(model);
      expect(run_case(session, c, nullptr) == MINNOW_OK, "a model that comes and goes does not run");
      minnow_free_session(session);
      if (k % 2 != 0) minnow_free_model(model);
      minnow_tensor none[1] = {};
      minnow_model* broken = nullptr;
      expect(minnow_load_memory(c.file.data(), c.file.size() / 2, &broken) != MINNOW_OK, "half a file was loaded");
      expect(minnow_last_error()[0] != 0 && minnow_run(nullptr, none, 0, none, 0) == MINNOW_USAGE, "no message");
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 4, "usage: side_by_side CASES THREADS ROUNDS");
  const std::vector<Case> cases = read_cases(argv[1]);
  const int threads = std::atoi(argv[2]), rounds = std::atoi(argv[3]);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    share_arena(c, cases[(i + 1) % cases.size()], threads, rounds);
    share_weights(c, threads, rounds);
    share_session(c, threads, rounds);
    share_states(c, threads, rounds);
    call_back(c, threads, rounds);
    stop(c, threads, rounds);
  }
  come_and_go(cases, threads, 4 * rounds);
  return 0;
}
