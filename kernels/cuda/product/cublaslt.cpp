#include "kernels/cuda/product/cublaslt.h"

#include <dlfcn.h>
#include <library_types.h>

#include <cmath>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <system_error>

namespace minnow::cuda {
namespace {

// What is used of the library's interface, which is a C interface with fixed numbers. Its own header comes only with
// the library itself, which is not needed to build.
using Handle = void*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;  // 0: it can be used
  float waves;
  int reserved[4];
};
constexpr int kComputeF32 = 68, kComputeTF32 = 77;
constexpr int kTransposeA = 3, kEpilogue = 7, kBiasPointer = 8, kBiasType = 26;  // of a product
constexpr int kBatchCount = 5, kBatchStride = 6;                                 // of a matrix
constexpr int kMostWorkspace = 1;                                                // of what is preferred
constexpr int kTransposed = 1;
constexpr int kPlain = 1, kRelu = 2, kBias = 4, kReluBias = 6;  // epilogues

struct Library {
  int (*create)(Handle*);
  int (*describe)(void**, int compute, int scale_type);
  int (*set)(void*, int what, const void*, size_t);
  int (*drop)(void*);
  int (*matrix)(void**, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*set_matrix)(void*, int what, const void*, size_t);
  int (*drop_matrix)(void*);
  int (*preference)(void**);
  int (*set_preference)(void*, int what, const void*, size_t);
  int (*drop_preference)(void*);
  int (*find)(Handle, void* product, void* a, void* b, void* c, void* d, void* preference, int most, Heuristic*, int*);
  int (*multiply)(Handle, void* product, const void* alpha, const void* a, void* a_matrix, const void* b,
                  void* b_matrix, const void* beta, const void* c, void* c_matrix, void* d, void* d_matrix,
                  const Algorithm*, void*, size_t, cudaStream_t);
  Handle handle[16] = {};  // for each device
  std::mutex lock;
};

void* open_library() {
  const char* const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  for (const char* name : names)
    if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
  const char* folders = std::getenv("MINNOW_CUBLASLT");
  std::string list = folders == nullptr ? "" : folders;
  while (!list.empty()) {
    const size_t colon = list.find(':');
    const std::string folder = list.substr(0, colon);
    list = colon == std::string::npos ? "" : list.substr(colon + 1);
    for (const char* name : names)
      if (void* found = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  }
  return nullptr;
}

// Null where it cannot be loaded.
Library* load() {
  void* file = open_library();
  if (file == nullptr) return nullptr;
  auto library = std::make_unique<Library>();
  bool all = true;
  const auto get = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(file, name));
    all = all && *function != nullptr;
  };
  get(&library->create, "cublasLtCreate");
  get(&library->describe, "cublasLtMatmulDescCreate");
  get(&library->set, "cublasLtMatmulDescSetAttribute");
  get(&library->drop, "cublasLtMatmulDescDestroy");
  get(&library->matrix, "cublasLtMatrixLayoutCreate");
  get(&library->set_matrix, "cublasLtMatrixLayoutSetAttribute");
  get(&library->drop_matrix, "cublasLtMatrixLayoutDestroy");
  get(&library->preference, "cublasLtMatmulPreferenceCreate");
  get(&library->set_preference, "cublasLtMatmulPreferenceSetAttribute");
  get(&library->drop_preference, "cublasLtMatmulPreferenceDestroy");
  get(&library->find, "cublasLtMatmulAlgoGetHeuristic");
  get(&library->multiply, "cublasLtMatmul");
  return all ? library.release() : nullptr;  // stays as long as the process
}

Library* library() {
  static Library* const loaded = load();
  return loaded;
}

// The library's state on the current device; null where there is none.
Handle handle_of(Library& lib) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 16) return nullptr;
  const std::lock_guard<std::mutex> guard(lib.lock);
  Handle& handle = lib.handle[device];
  if (handle == nullptr && lib.create(&handle) != 0) handle = nullptr;
  return handle;
}

int type_of(Element element) {
  return element == Element::kF16 ? CUDA_R_16F : element == Element::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}

// Matrices are by columns there: y^T[n, m] = w[n, k] x[m, k]^T, whose rows are the columns of what it is told.
class Plans final : public LibraryProduct {
 public:
  Plans(Library& lib, Handle handle, const Product& p) : lib_(lib), handle_(handle), product_(p) {}
  ~Plans() override {
    if (operation_ != nullptr) lib_.drop(operation_);
    for (void* matrix : {w_, x_, y_})
      if (matrix != nullptr) lib_.drop_matrix(matrix);
  }

  bool prepare(int64_t workspace) {
    const ProductArguments& s = product_.shape;
    const int type = type_of(product_.element), out = s.end.f32 ? CUDA_R_32F : type;
    const int compute = product_.element == Element::kTF32 ? kComputeTF32 : kComputeF32;
    if (lib_.describe(&operation_, compute, CUDA_R_32F) != 0) return false;
    const bool relu = s.end.low == 0;
    const int epilogue = product_.has_bias ? (relu ? kReluBias : kBias) : (relu ? kRelu : kPlain);
    if (lib_.set(operation_, kTransposeA, &kTransposed, sizeof kTransposed) != 0) return false;
    if (lib_.set(operation_, kEpilogue, &epilogue, sizeof epilogue) != 0) return false;
    if (product_.has_bias && lib_.set(operation_, kBiasType, &out, sizeof out) != 0) return false;
    const uint64_t m = static_cast<uint64_t>(s.M), n = static_cast<uint64_t>(s.N), k = static_cast<uint64_t>(s.C);
    if (lib_.matrix(&w_, type, k, n, s.depth) != 0 || lib_.matrix(&x_, type, k, m, s.pixel) != 0 ||
        lib_.matrix(&y_, out, n, m, s.end.row) != 0)
      return false;
    if (product_.batch > 1) {
      const int64_t strides[] = {s.w_batch, s.x_batch, s.y_batch};
      void* const matrices[] = {w_, x_, y_};
      for (int i = 0; i < 3; ++i)
        if (lib_.set_matrix(matrices[i], kBatchCount, &product_.batch, sizeof product_.batch) != 0 ||
            lib_.set_matrix(matrices[i], kBatchStride, &strides[i], sizeof strides[i]) != 0)
          return false;
    }
    void* preference = nullptr;
    if (lib_.preference(&preference) != 0) return false;
    const uint64_t most = static_cast<uint64_t>(workspace);
    int count = 0;
    found_.resize(8);
    const bool asked = lib_.set_preference(preference, kMostWorkspace, &most, sizeof most) == 0 &&
                       lib_.find(handle_, operation_, w_, x_, y_, y_, preference, static_cast<int>(found_.size()),
                                 found_.data(), &count) == 0;
    lib_.drop_preference(preference);
    found_.resize(asked ? static_cast<size_t>(count) : 0);
    while (!found_.empty() && found_.back().state != 0) found_.pop_back();
    return !found_.empty();
  }

  int plans() const override { return static_cast<int>(found_.size()); }
  int64_t workspace(int plan) const override {
    return static_cast<int64_t>(found_[static_cast<size_t>(plan)].workspace);
  }

  Status launch(int plan, const ProductOperands& o, void* workspace, cudaStream_t stream) override {
    const Heuristic& found = found_[static_cast<size_t>(plan)];
    const float one = 1, add = o.residual != nullptr ? 1.0f : 0.0f;
    const void* bias = product_.shape.end.f32 || bytes_of(product_.element) == 4 ? o.bias : o.narrow_bias;
    if (product_.has_bias && lib_.set(operation_, kBiasPointer, &bias, sizeof bias) != 0)
      return fail(Code::kDevice, "CUDA: cuBLASLt refuses the bias");
    const void* c = o.residual != nullptr ? o.residual : o.y;
    const int error = lib_.multiply(handle_, operation_, &one, o.w, w_, o.x, x_, &add, c, y_, o.y, y_, &found.algorithm,
                                    workspace, found.workspace, stream);
    return error == 0 ? ok() : fail(Code::kDevice, "CUDA: cuBLASLt fails with status %d", error);
  }

 private:
  Library& lib_;
  Handle handle_;
  Product product_;
  void *operation_ = nullptr, *w_ = nullptr, *x_ = nullptr, *y_ = nullptr;
  std::vector<Heuristic> found_;
};

// No activation, or that of the library: its GELU is another one, and Clip it does not have.
bool has_ending(const Ending& end) {
  const bool plain = end.curve == Ending::kNone && end.slope == 1 && std::isinf(end.high) && end.high > 0;
  return plain && (end.low == 0 || (std::isinf(end.low) && end.low < 0));
}

}  // namespace

void LibraryProduct::expect() {
  static std::mutex mutex;
  static std::future<void> loading;  // which the end of the process waits for
  const std::lock_guard<std::mutex> lock(mutex);
  if (loading.valid()) return;
  try {
    loading = std::async(std::launch::async, [] { library(); });
  } catch (const std::system_error&) {  // no thread is to be had: it is loaded when it is needed
  }
}

std::unique_ptr<LibraryProduct> LibraryProduct::create(const Product& product, int64_t workspace) {
  const ProductArguments& s = product.shape;
  if (!product.is_matrix() || !has_ending(s.end) || s.end.spread.rows != 0 || s.split != 0) return nullptr;
  if (product.element == Element::kF32) return nullptr;
  if (product.has_bias && product.batch > 1 && s.bias_batch != 0) return nullptr;
  Library* lib = library();
  Handle handle = lib == nullptr ? nullptr : handle_of(*lib);
  if (handle == nullptr) return nullptr;
  auto plans = std::make_unique<Plans>(*lib, handle, product);
  if (!plans->prepare(workspace)) return nullptr;
  return plans;
}

}  // namespace minnow::cuda
