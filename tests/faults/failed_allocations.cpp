// Every allocation of loading, planning and running a model fails, one after the other: the call must end with an error
// and a message, what it had must be given back, and the same objects and new ones must then give the right results.
//
// usage: failed_allocations CASES THREADS MOST FOLDER
//
// MOST: of the allocations of a case at most so many fail, evenly spread. FOLDER: for files, which are mapped. Prints a
// line per case. The sanitizer looks for leaks at the end.
#include <thread>

#include "cases.h"
#include "failing_malloc.h"

namespace {

struct Outcome {
  minnow_code code = MINNOW_OK;
  const char* where = "";
  std::string message;
  minnow_model* model = nullptr;
  minnow_session* session = nullptr;
  Results first, second;
};

// Loads, plans and runs twice. The copies of the results are not the engine's allocations.
void attempt(const std::string& path, const Case& c, int threads, bool counted, Outcome* out) {
  minnow_options options = MINNOW_OPTIONS;
  options.threads = threads;
  const auto step = [&](const char* where, auto call) {
    if (out->code != MINNOW_OK) return;
    allocations.counting = counted;
    out->code = call();
    allocations.counting = false;
    out->where = where;
    if (out->code != MINNOW_OK) out->message = minnow_last_error();
  };
  step("load", [&] { return minnow_load_file(path.c_str(), &out->model); });
  step("create", [&] { return minnow_create_session(out->model, &options, &out->session); });
  for (Results* results : {&out->first, &out->second}) {
    minnow_tensor outputs[64] = {};
    const size_t n = out->session == nullptr ? 0 : minnow_num_outputs(out->session);
    step("run", [&] { return minnow_run(out->session, c.inputs.data(), c.inputs.size(), outputs, n); });
    for (size_t i = 0; i < n && out->code == MINNOW_OK; ++i) results->push_back(bytes_of(outputs[i]));
  }
}

void end(Outcome* out) {
  minnow_free_session(out->session);
  minnow_free_model(out->model);
}

void recover(const std::string& path, const Case& c, int threads, const Outcome& want, Outcome* out,
             const std::string& what) {
  minnow_options options = MINNOW_OPTIONS;
  options.threads = threads;
  if (out->model == nullptr) expect(minnow_load_file(path.c_str(), &out->model) == MINNOW_OK, what + ": load again");
  if (out->session == nullptr)
    expect(minnow_create_session(out->model, &options, &out->session) == MINNOW_OK, what + ": create again");
  // The states are those before the run that has failed; there are no results for a third run.
  const bool first = out->code == MINNOW_OK || out->first.empty();
  if (out->code == MINNOW_OK) expect(minnow_reset(out->session) == MINNOW_OK, what + ": reset");
  Results again;
  expect(run_case(out->session, c, &again) == MINNOW_OK, what + ": run again");
  expect(again == (first ? want.first : want.second), what + ": other results afterwards");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 5, "usage: failed_allocations CASES THREADS MOST FOLDER");
  const int threads = std::atoi(argv[2]);
  const long most = std::atol(argv[3]);
  const std::string path = std::string(argv[4]) + "/case.mnn";
  CaseReader reader(argv[1]);
  Case c;
  for (int number = 0; reader.next(&c); ++number) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    expect(file != nullptr && std::fwrite(c.file.data(), 1, c.file.size(), file) == c.file.size(), "cannot write");
    std::fclose(file);
    Outcome want;
    allocations.failing = -1;
    attempt(path, c, threads, false, &want);
    expect(want.code == MINNOW_OK, "the case does not run");
    Outcome counted;
    allocations.count = 0;
    attempt(path, c, threads, true, &counted);
    expect(counted.first == want.first && counted.second == want.second, "two sessions give other results");
    end(&counted);
    const long all = allocations.count, stride = all > most ? (all + most - 1) / most : 1;
    long errors = 0, survived = 0;
    for (long n = number % stride; n < all; n += stride) {
      for (bool all_after : {false, true}) {
        Outcome out;
        allocations.count = 0;
        allocations.failed = 0;
        allocations.failing = n;
        allocations.all_after = all_after;
        // In a thread of its own, which has no memory for a message yet.
        std::thread([&] { attempt(path, c, threads, true, &out); }).join();
        allocations.failing = -1;
        const std::string what = "case " + std::to_string(number) + ", allocation " + std::to_string(n) +
                                 (all_after ? " and all after it, " : ", ") + out.where + " came to " +
                                 std::to_string(out.code);
        if (out.code != MINNOW_OK) {
          ++errors;
          expect(allocations.failed > 0, what + ", though nothing has failed");
          expect(out.code == MINNOW_UNSUPPORTED || out.code == MINNOW_FORMAT, what);
          expect(!out.message.empty(), what + " without a message");
        } else {
          ++survived;
          expect(out.first == want.first && out.second == want.second, what + " with other results");
        }
        recover(path, c, threads, want, &out, what);
        end(&out);
      }
    }
    end(&want);
    std::printf("case %d: %ld allocations, %ld errors, %ld went on\n", number, all, errors, survived);
    std::fflush(stdout);
  }
  return 0;
}
