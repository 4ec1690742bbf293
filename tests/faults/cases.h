// Models with inputs, as tests/runtime/native_cases.py writes them to a file: for each, u64 size, the .mnn file, i32
// number of inputs, the inputs. A tensor is: i32 dtype, i32 rank, i64 shape[rank], u64 bytes, the data.
#pragma once

#include <minnow/minnow.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s (%s)\n", what.c_str(), minnow_last_error());
  std::exit(1);
}

struct Case {
  std::string file;
  std::vector<minnow_tensor> inputs;
  std::vector<std::string> data;  // of the inputs
};

// The bytes of each output, or of the first few.
using Results = std::vector<std::string>;

class CaseReader {
 public:
  explicit CaseReader(const char* path) : file_(std::fopen(path, "rb")) {
    expect(file_ != nullptr, std::string("cannot open ") + path);
  }
  ~CaseReader() { std::fclose(file_); }
  CaseReader(const CaseReader&) = delete;
  CaseReader& operator=(const CaseReader&) = delete;

  bool next(Case* c) {
    uint64_t size = 0;
    if (std::fread(&size, 1, sizeof size, file_) != sizeof size) return false;
    c->file.resize(size);
    take(c->file.data(), size);
    int32_t count = 0;
    take(&count, sizeof count);
    c->inputs.assign(static_cast<size_t>(count), minnow_tensor{});
    c->data.assign(c->inputs.size(), "");
    for (size_t i = 0; i < c->inputs.size(); ++i) {
      minnow_tensor& t = c->inputs[i];
      take(&t.dtype, sizeof t.dtype);
      take(&t.rank, sizeof t.rank);
      take(t.shape, sizeof t.shape[0] * static_cast<size_t>(t.rank));
      take(&size, sizeof size);
      c->data[i].resize(size + 1);  // one more, so that none is without memory
      take(c->data[i].data(), size);
    }
    for (size_t i = 0; i < c->inputs.size(); ++i) c->inputs[i].data = c->data[i].data();
    return true;
  }

 private:
  void take(void* to, size_t bytes) {
    expect(std::fread(to, 1, bytes, file_) == bytes, "the file of cases is cut off");
  }
  std::FILE* file_;
};

inline std::vector<Case> read_cases(const char* path) {
  CaseReader reader(path);
  std::vector<Case> cases;
  for (Case c; reader.next(&c);) {
    cases.push_back(std::move(c));
    Case& kept = cases.back();
    for (size_t i = 0; i < kept.inputs.size(); ++i) kept.inputs[i].data = kept.data[i].data();
    c = Case();
  }
  return cases;
}

inline size_t size_of(const minnow_tensor& t) {
  static const uint64_t kWide[] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8};  // all types after these are of a byte
  uint64_t bytes = t.dtype < 12 ? kWide[t.dtype] : 1;
  for (int32_t i = 0; i < t.rank; ++i) bytes *= static_cast<uint64_t>(t.shape[i]);
  return bytes;
}

inline std::string bytes_of(const minnow_tensor& t) {
  return std::string(static_cast<const char*>(t.data), size_of(t));
}

// Runs the case once. Of the outputs, `results` gets the bytes; null: nobody asks.
inline minnow_code run_case(minnow_session* session, const Case& c, Results* results) {
  constexpr size_t kMost = 64;
  minnow_tensor outputs[kMost] = {};
  const size_t n = minnow_num_outputs(session) < kMost ? minnow_num_outputs(session) : kMost;
  const minnow_code code = minnow_run(session, c.inputs.data(), c.inputs.size(), outputs, n);
  if (code != MINNOW_OK || results == nullptr) return code;
  results->clear();
  for (size_t i = 0; i < n; ++i) results->push_back(bytes_of(outputs[i]));
  return code;
}
