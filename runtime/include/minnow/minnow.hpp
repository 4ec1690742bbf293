// Minnow in C++17: the C API with handles that free themselves, spans, and errors as exceptions.
//
//   minnow::Model model("model.mnn");
//   minnow::Session session(model);
//   std::vector<float> image(3 * 224 * 224);
//   auto results = session.run({minnow::tensor("x", image, {1, 3, 224, 224})});
//   for (float p : results[0].data<float>()) ...
//
// Nothing but this header is needed beside minnow.h and libminnow.so: it may be compiled by another compiler than the
// library. Tensors are views: nothing is copied on the way in, and results lie in the memory of the session, or in the
// caller's with Session::run_into. What takes a status instead of throwing is named try_...
#ifndef MINNOW_MINNOW_HPP
#define MINNOW_MINNOW_HPP

#include <minnow/minnow.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace minnow {

// Elements that lie one after the other in memory of somebody else.
template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  template <typename Container,
            typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container&>().data()), T*>>>
  constexpr Span(Container& container) : data_(container.data()), size_(container.size()) {}
  template <std::size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// The result of a call that does not throw.
class Status {
 public:
  Status() = default;
  Status(minnow_code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == MINNOW_OK; }
  explicit operator bool() const { return ok(); }
  minnow_code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  minnow_code code_ = MINNOW_OK;
  std::string message_;
};

class Error : public std::runtime_error {
 public:
  Error(minnow_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  minnow_code code() const { return code_; }

 private:
  minnow_code code_;
};

inline Status status_of(minnow_code code) { return code == MINNOW_OK ? Status() : Status(code, minnow_last_error()); }

// Throws an Error unless the code is MINNOW_OK.
inline void check(minnow_code code) {
  if (code != MINNOW_OK) throw Error(code, minnow_last_error());
}

// The element type of Minnow for one of C++. float16 and its like have none: give them as minnow_tensor.
template <typename T>
constexpr minnow_dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return MINNOW_F32;
  else if constexpr (std::is_same_v<U, double>)
    return MINNOW_F64;
  else if constexpr (std::is_same_v<U, bool>)
    return MINNOW_BOOL;
  else if constexpr (std::is_same_v<U, std::int8_t>)
    return MINNOW_I8;
  else if constexpr (std::is_same_v<U, std::uint8_t>)
    return MINNOW_U8;
  else if constexpr (std::is_same_v<U, std::int16_t>)
    return MINNOW_I16;
  else if constexpr (std::is_same_v<U, std::uint16_t>)
    return MINNOW_U16;
  else if constexpr (std::is_same_v<U, std::int32_t>)
    return MINNOW_I32;
  else if constexpr (std::is_same_v<U, std::uint32_t>)
    return MINNOW_U32;
  else if constexpr (std::is_same_v<U, std::int64_t>)
    return MINNOW_I64;
  else if constexpr (std::is_same_v<U, std::uint64_t>)
    return MINNOW_U64;
  else
    static_assert(!sizeof(T), "there is no such element type");
}

// A tensor in memory of somebody else: row-major, without gaps.
class Tensor : public minnow_tensor {
 public:
  Tensor() : minnow_tensor() {}
  explicit Tensor(const minnow_tensor& tensor) : minnow_tensor(tensor) {}

  Span<const std::int64_t> sizes() const { return {shape, static_cast<std::size_t>(rank)}; }
  // Throws Error(MINNOW_USAGE) where that cannot be a shape.
  void set_sizes(Span<const std::int64_t> sizes) {
    if (sizes.size() > MINNOW_MAX_RANK) throw Error(MINNOW_USAGE, "a tensor has too many axes");
    std::int64_t most = INT64_MAX;
    for (std::int64_t size : sizes) {
      if (size < 0 || size > most) throw Error(MINNOW_USAGE, "a size of a tensor is below 0 or too large");
      if (size > 0) most /= size;
    }
    rank = 0;
    for (std::int64_t size : sizes) shape[rank++] = size;
  }
  std::size_t count() const {
    std::size_t n = 1;
    for (std::int64_t size : sizes()) n *= static_cast<std::size_t>(size);
    return n;
  }
  // Its elements, none where it is missing. Throws Error(MINNOW_USAGE) where they are of another type.
  template <typename T>
  Span<T> data() const {
    if (dtype != dtype_of<T>())
      throw Error(MINNOW_USAGE, std::string("tensor '") + (name == nullptr ? "" : name) + "' has the type " +
                                    std::to_string(dtype) + ", not " + std::to_string(dtype_of<T>()));
    return {static_cast<T*>(minnow_tensor::data), minnow_tensor::data == nullptr ? 0 : count()};
  }
};

// A tensor of the elements of a vector, array or Span. The name, which may be null for "the one at this place", and the
// elements must outlive it. Throws Error(MINNOW_USAGE) where the shape has another number of elements.
template <typename Container>
Tensor tensor(const char* name, Container&& elements, std::initializer_list<std::int64_t> shape) {
  using Element = std::remove_pointer_t<decltype(elements.data())>;
  Tensor made;
  made.name = name;
  made.dtype = dtype_of<Element>();
  made.set_sizes({shape.begin(), shape.size()});
  made.minnow_tensor::data = const_cast<void*>(static_cast<const void*>(elements.data()));
  if (made.count() != elements.size())
    throw Error(MINNOW_USAGE, std::string("tensor '") + (name == nullptr ? "" : name) + "' has " +
                                  std::to_string(elements.size()) + " elements, its shape " +
                                  std::to_string(made.count()));
  return made;
}

// The type of an input for Session::prepare.
inline Tensor shape_of(const char* name, minnow_dtype dtype, std::initializer_list<std::int64_t> shape) {
  Tensor made;
  made.name = name;
  made.dtype = dtype;
  made.set_sizes({shape.begin(), shape.size()});
  return made;
}

// A model. Sessions keep what they need of it.
class Model {
 public:
  explicit Model(const std::string& path, bool copies = false) {
    minnow_load_options options = MINNOW_LOAD_OPTIONS;
    options.copies = copies;
    minnow_model* loaded = nullptr;
    check(minnow_load_file_with(path.c_str(), &options, &loaded));
    model_.reset(loaded);
  }
  // Of the bytes of a file, which are copied.
  explicit Model(Span<const std::uint8_t> bytes) {
    minnow_model* loaded = nullptr;
    check(minnow_load_memory(bytes.data(), bytes.size(), &loaded));
    model_.reset(loaded);
  }
  const minnow_model* get() const { return model_.get(); }

 private:
  struct Free {
    void operator()(minnow_model* model) const { minnow_free_model(model); }
  };
  std::unique_ptr<minnow_model, Free> model_;
};

// Memory that several sessions share for their intermediate tensors (see minnow_create_arena). A copy is the same
// arena.
class Arena {
 public:
  Arena() {
    minnow_arena* created = nullptr;
    check(minnow_create_arena(&created));
    arena_.reset(created, minnow_free_arena);
  }
  minnow_arena* get() const { return arena_.get(); }

 private:
  std::shared_ptr<minnow_arena> arena_;
};

struct Options {
  int threads = 0;  // 0: all that the process may use
  minnow_precision precision = MINNOW_HIGH;
  std::chrono::milliseconds timeout{0};  // of each run; 0: none
  std::int64_t max_memory = 0;           // bytes; 0: see minnow_options
  std::int64_t max_rounds = 0;
  std::string device = "cpu";
  minnow_arena* arena = nullptr;  // Arena::get(), read when the session is created; null: one of its own
};

// An input, output or state, as the source model declares it.
struct Info {
  std::string name;
  minnow_dtype dtype = MINNOW_F32;
  bool has_rank = true;
  std::vector<std::int64_t> shape;   // -1: a dynamic dimension
  std::vector<std::string> symbols;  // the names of dynamic dimensions, else ""
};

// A node, as a function that watches a run sees it; valid during the call.
class Node {
 public:
  explicit Node(const minnow_node& node) : node_(node) {}
  std::string name() const { return node_.name; }
  std::string op() const { return node_.op; }
  bool has_run() const { return node_.outputs != nullptr; }
  std::size_t num_inputs() const { return node_.num_inputs; }
  std::size_t num_outputs() const { return node_.num_outputs; }
  // Both throw Error(MINNOW_USAGE) where there is none.
  Tensor input(std::size_t i) const { return at(node_.inputs, node_.num_inputs, i); }
  Tensor output(std::size_t i) const { return at(node_.outputs, node_.num_outputs, i); }  // after it has run

 private:
  static Tensor at(const minnow_tensor* tensors, std::size_t count, std::size_t i) {
    if (i >= count) throw Error(MINNOW_USAGE, "the node has no tensor " + std::to_string(i));
    return Tensor(tensors[i]);
  }

  const minnow_node& node_;
};

class Session {
 public:
  explicit Session(const Model& model, const Options& options = {}) {
    minnow_options chosen = MINNOW_OPTIONS;
    chosen.threads = options.threads;
    chosen.precision = options.precision;
    chosen.timeout_ms = options.timeout.count();
    chosen.max_memory = options.max_memory;
    chosen.max_rounds = options.max_rounds;
    chosen.device = options.device.c_str();
    chosen.arena = options.arena;
    minnow_session* created = nullptr;
    check(minnow_create_session(model.get(), &chosen, &created));
    session_.reset(created);
  }
  minnow_session* get() const { return session_.get(); }

  std::vector<Info> inputs() const { return infos(minnow_num_inputs(get()), minnow_input_info); }
  std::vector<Info> outputs() const { return infos(minnow_num_outputs(get()), minnow_output_info); }
  std::vector<Info> states() const { return infos(minnow_num_states(get()), minnow_state_info); }

  // Runs the model. The results, by default all in the model's order, lie in memory of the session and are valid until
  // its next run.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const std::vector<const char*>& outputs = {}) {
    std::vector<Tensor> results = named(outputs.empty() ? minnow_num_outputs(get()) : outputs.size(), outputs);
    finish(minnow_run(get(), inputs.data(), inputs.size(), results.data(), results.size()));
    return results;
  }
  // Without exceptions, but of the functions that watch: `results` name what is wanted and are filled in.
  Status try_run(Span<const Tensor> inputs, Span<Tensor> results) {
    return status_of(minnow_run(get(), inputs.data(), inputs.size(), results.data(), results.size()));
  }
  // Runs the model and writes the results into memory of the caller, whose types and shapes must be theirs.
  void run_into(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    finish(minnow_run_into(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  // Computes values between nodes, by their names in the file, and nothing that they do not need.
  std::vector<Tensor> run_part(const std::vector<Tensor>& inputs, const std::vector<const char*>& names) {
    std::vector<Tensor> results = named(names.size(), names);
    finish(minnow_run_part(get(), inputs.data(), inputs.size(), results.data(), results.size()));
    return results;
  }
  // Plans for inputs of these shapes, so that the first run with them is as fast as the others.
  void prepare(const std::vector<Tensor>& shapes) { check(minnow_prepare(get(), shapes.data(), shapes.size())); }

  // Functions that see each node before and after it runs, in all later runs; one that returns false ends the run with
  // Error(MINNOW_STOPPED). An exception ends it, too, and leaves `run`. Empty ones: no longer.
  using Watcher = std::function<bool(const Node&)>;
  void watch(Watcher before, Watcher after = {}) {
    if (!before && !after) {
      check(minnow_set_callback(get(), nullptr, nullptr));
      watch_.reset();
      return;
    }
    auto next = std::make_unique<Watch>(Watch{std::move(before), std::move(after), nullptr});
    check(minnow_set_callback(get(), &Watch::call, next.get()));
    watch_ = std::move(next);
  }
  // Ends the run that is under way, from another thread or a signal handler, with Error(MINNOW_STOPPED).
  void cancel() { minnow_cancel(get()); }
  void set_timeout(std::chrono::milliseconds timeout) { check(minnow_set_timeout(get(), timeout.count())); }

  // States of streaming models: as they were in the file; all as bytes; or one by one, by name.
  void reset() { check(minnow_reset(get())); }
  std::vector<std::uint8_t> save_states() const {
    std::size_t size = 0;
    check(minnow_save_states(get(), nullptr, 0, &size));
    std::vector<std::uint8_t> bytes(size);
    check(minnow_save_states(get(), bytes.data(), bytes.size(), &size));
    return bytes;
  }
  void restore_states(Span<const std::uint8_t> bytes) {
    check(minnow_restore_states(get(), bytes.data(), bytes.size()));
  }
  void resize_states(const char* dimension, std::int64_t size) { check(minnow_resize_states(get(), dimension, size)); }
  void copy_in_states(const char* dimension, std::int64_t from, std::int64_t to) {
    check(minnow_copy_in_states(get(), dimension, from, to));
  }
  void retype_state(const Tensor& type) { check(minnow_retype_states(get(), &type, 1)); }
  Tensor state(const char* name) const {  // valid until the next run or change of states
    Tensor found;
    found.name = name;
    check(minnow_get_states(get(), &found, 1));
    return found;
  }
  void set_state(const Tensor& value) { check(minnow_set_states(get(), &value, 1)); }

  // Mean times of each node over some runs; the rows are valid until the next such call.
  Span<const minnow_profile_row> profile(const std::vector<Tensor>& inputs, int runs) {
    const minnow_profile_row* rows = nullptr;
    std::size_t count = 0;
    finish(minnow_profile(get(), inputs.data(), inputs.size(), runs, sizeof(minnow_profile_row), &rows, &count));
    return {rows, count};
  }
  minnow_stats stats() const {
    minnow_stats found = MINNOW_STATS;
    check(minnow_get_stats(get(), &found));
    return found;
  }
  void write_packed() { check(minnow_write_packed(get())); }

 private:
  struct Free {
    void operator()(minnow_session* session) const { minnow_free_session(session); }
  };
  // At a place that stays when the session is moved.
  struct Watch {
    Watcher before, after;
    std::exception_ptr thrown;
    static std::int32_t call(void* user, const minnow_node* node) noexcept {
      Watch& self = *static_cast<Watch*>(user);
      try {
        const Watcher& watcher = node->outputs == nullptr ? self.before : self.after;
        return watcher && !watcher(Node(*node));
      } catch (...) {
        self.thrown = std::current_exception();
        return 1;
      }
    }
  };

  void finish(minnow_code code) {
    if (watch_ != nullptr && watch_->thrown != nullptr) std::rethrow_exception(std::exchange(watch_->thrown, nullptr));
    check(code);
  }
  static std::vector<Tensor> named(std::size_t count, const std::vector<const char*>& names) {
    std::vector<Tensor> tensors(count);
    for (std::size_t i = 0; i < names.size(); ++i) tensors[i].name = names[i];
    return tensors;
  }
  template <typename Get>
  std::vector<Info> infos(std::size_t count, Get get_info) const {
    std::vector<Info> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      minnow_tensor_info info = MINNOW_TENSOR_INFO;
      check(get_info(get(), i, &info));
      all[i].name = info.name;
      all[i].dtype = info.dtype;
      all[i].has_rank = info.rank >= 0;
      for (std::int32_t d = 0; d < info.rank; ++d) {
        all[i].shape.push_back(info.shape[d]);
        all[i].symbols.emplace_back(info.symbols[d] == nullptr ? "" : info.symbols[d]);
      }
    }
    return all;
  }

  std::unique_ptr<minnow_session, Free> session_;
  std::unique_ptr<Watch> watch_;
};

// Converts an image to a tensor in memory of the caller (see minnow_convert_image):
//
//   minnow::ImageProcess process;
//   process.source = MINNOW_NV21;
//   process.fit(1920, 1080, 224, 224);
//   process.convert(pixels, 1920, 1080, 0, minnow::tensor("", floats, {1, 3, 224, 224}));
struct ImageProcess : minnow_image_process {
  ImageProcess() : minnow_image_process(MINNOW_IMAGE_PROCESS) {}
  // Sets the matrix, so that a whole image of this size fills a tensor of that size; the corner pixels stay such.
  void fit(std::int32_t width, std::int32_t height, std::int32_t tensor_width, std::int32_t tensor_height) {
    const auto ratio = [](std::int32_t a, std::int32_t b) {
      return b > 1 ? static_cast<float>(a - 1) / static_cast<float>(b - 1) : 1.0f;
    };
    const float scaling[9] = {ratio(width, tensor_width), 0, 0, 0, ratio(height, tensor_height), 0, 0, 0, 1};
    std::copy(scaling, scaling + 9, matrix);
  }
  void convert(const void* pixels, std::int32_t width, std::int32_t height, std::int64_t stride,
               const minnow_tensor& target) const {
    check(minnow_convert_image(this, pixels, width, height, stride, &target));
  }
};

// Where the threads that all sessions share run, and at what priority (see minnow_set_workers).
inline void set_workers(const std::vector<std::int32_t>& cpus, int nice = 0) {
  minnow_workers workers = MINNOW_WORKERS;
  workers.cpus = cpus.data();
  workers.num_cpus = cpus.size();
  workers.nice = nice;
  check(minnow_set_workers(&workers));
}

// Sets the logger of the process, a function that is called from any thread and must not throw; empty: none. It stays
// in memory as long as the process.
inline void set_logger(std::function<void(bool is_error, const char* message)> logger) {
  if (!logger) return minnow_set_logger(nullptr, nullptr);
  auto* kept = new std::function<void(bool, const char*)>(std::move(logger));
  minnow_set_logger(
      [](void* user, std::int32_t kind, const char* message) {
        (*static_cast<std::function<void(bool, const char*)>*>(user))(kind == MINNOW_LOG_ERROR, message);
      },
      kept);
}

inline std::string version() { return minnow_version(); }

}  // namespace minnow

#endif
