#include "cuda/cublas.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "cuda/device_memory.h"
#include "cuda/error.h"

namespace fovea::cuda {
namespace {

// Of cublasLt.h.
constexpr int kCompute32 = 68, kReal32 = 0, kBf16 = 14;  // CUBLAS_COMPUTE_32F, CUDA_R_32F, 16BF
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr int kBatchCount = 5, kBatchStep = 6;  // of a layout
constexpr int kMaxWorkspace = 1;                // of a preference
constexpr uint32_t kPlainEpilogue = 1, kBiasEpilogue = 4;
constexpr size_t kWorkspace = size_t{32} << 20;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
using Handle = void*;

struct Library {
  int (*create)(Handle*) = nullptr;
  int (*matmul)(Handle, void* description, const void* alpha, const void* a, void* a_layout,
                const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                void* d, void* d_layout, const Algorithm*, void* workspace, size_t bytes,
                cudaStream_t) = nullptr;
  int (*heuristic)(Handle, void* description, void* a, void* b, void* c, void* d, void* preference,
                   int asked, Heuristic*, int* found) = nullptr;
  int (*description_create)(void**, int compute, int scale_type) = nullptr;
  int (*description_destroy)(void*) = nullptr;
  int (*description_set)(void*, int attribute, const void*, size_t) = nullptr;
  int (*layout_create)(void**, int type, uint64_t rows, uint64_t columns, int64_t step) = nullptr;
  int (*layout_destroy)(void*) = nullptr;
  int (*layout_set)(void*, int attribute, const void*, size_t) = nullptr;
  int (*preference_create)(void**) = nullptr;
  int (*preference_destroy)(void*) = nullptr;
  int (*preference_set)(void*, int attribute, const void*, size_t) = nullptr;

  Handle handle = nullptr;
  void* workspace = nullptr;

  Library() {
    const char* const asked = std::getenv("FOVEA_CUDA_BLAS");
    if (asked != nullptr && std::string(asked) == "own") return;
    void* file = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      if (file == nullptr) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (file == nullptr || !find_all(file)) return;
    (void)stream();  // the device is started
    if (create(&handle) != 0) {
      handle = nullptr;
      return;
    }
    workspace = allocate(kWorkspace);
  }

 private:
  bool find_all(void* file) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
      return function != nullptr;
    };
    return find(create, "cublasLtCreate") && find(matmul, "cublasLtMatmul") &&
           find(heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
           find(description_create, "cublasLtMatmulDescCreate") &&
           find(description_destroy, "cublasLtMatmulDescDestroy") &&
           find(description_set, "cublasLtMatmulDescSetAttribute") &&
           find(layout_create, "cublasLtMatrixLayoutCreate") &&
           find(layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(layout_set, "cublasLtMatrixLayoutSetAttribute") &&
           find(preference_create, "cublasLtMatmulPreferenceCreate") &&
           find(preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  }
};

Library& library() {
  static Library* const one = new Library;  // never closed
  return *one;
}

// Everything a way depends on.
using Key = std::array<int64_t, 16>;
Key key_of(const ColumnProduct& x) {
  const auto aligned = [](const void* p) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    return static_cast<int64_t>(at % 16 == 0 ? 16 : at % 8 == 0 ? 8 : at % 4 == 0 ? 4 : 2);
  };
  const int64_t align =
      aligned(x.a) | aligned(x.b) << 8 | aligned(x.d) << 16 | (x.c ? aligned(x.c) << 24 : 0);
  return {x.m,
          x.n,
          x.k,
          x.a_transposed,
          x.b_transposed,
          x.lda,
          x.ldb,
          x.ldc,
          x.ldd,
          x.batch,
          x.a_step,
          x.b_step,
          x.d_step,
          x.bias != nullptr,
          align,
          static_cast<int64_t>(x.type) | static_cast<int64_t>(x.d_type) << 8};
}

// A product as the library wants it told; kept by its sizes, so that the same product is always
// done the same way.
struct Way {
  void *description = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
  Algorithm algorithm{};
  bool found = false;
};

int type_of(kernels::Number n) { return n == kernels::Number::bf16 ? kBf16 : kReal32; }

struct Layout {
  kernels::Number type;
  int64_t rows, columns, step;
};
void* layout_of(const Layout& of, int64_t batch, int64_t batch_step) {
  const Library& lib = library();
  void* layout = nullptr;
  lib.layout_create(&layout, type_of(of.type), static_cast<uint64_t>(of.rows),
                    static_cast<uint64_t>(of.columns), of.step);
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    lib.layout_set(layout, kBatchCount, &count, sizeof count);
    lib.layout_set(layout, kBatchStep, &batch_step, sizeof batch_step);
  }
  return layout;
}

Way find_way(const ColumnProduct& x) {
  const Library& lib = library();
  Way way;
  const int32_t transposed = 1;
  lib.description_create(&way.description, kCompute32, kReal32);
  if (x.a_transposed) {
    lib.description_set(way.description, kTransposeA, &transposed, sizeof transposed);
  }
  if (x.b_transposed) {
    lib.description_set(way.description, kTransposeB, &transposed, sizeof transposed);
  }
  const uint32_t epilogue = x.bias ? kBiasEpilogue : kPlainEpilogue;
  lib.description_set(way.description, kEpilogue, &epilogue, sizeof epilogue);
  if (x.bias) lib.description_set(way.description, kBiasPointer, &x.bias, sizeof x.bias);
  const auto given = [&](bool transposed, int64_t rows, int64_t columns, int64_t step) {
    return transposed ? Layout{x.type, columns, rows, step} : Layout{x.type, rows, columns, step};
  };
  way.a = layout_of(given(x.a_transposed, x.m, x.k, x.lda), x.batch, x.a_step);
  way.b = layout_of(given(x.b_transposed, x.k, x.n, x.ldb), x.batch, x.b_step);
  way.c = layout_of({x.d_type, x.m, x.n, x.c ? x.ldc : x.ldd}, x.batch, x.d_step);
  way.d = layout_of({x.d_type, x.m, x.n, x.ldd}, x.batch, x.d_step);
  void* preference = nullptr;
  lib.preference_create(&preference);
  lib.preference_set(preference, kMaxWorkspace, &kWorkspace, sizeof kWorkspace);
  Heuristic best{};
  int count = 0;
  const int status = lib.heuristic(library().handle, way.description, way.a, way.b, way.c, way.d,
                                   preference, 1, &best, &count);
  lib.preference_destroy(preference);
  way.found = status == 0 && count > 0 && best.state == 0;
  way.algorithm = best.algorithm;
  return way;
}

}  // namespace

bool has_cublas() { return library().handle != nullptr; }

bool multiply_by_cublas(const ColumnProduct& x) {
  if (!has_cublas()) return false;
  static std::mutex mutex;
  static auto* const ways = new std::map<Key, Way>;
  const std::lock_guard lock(mutex);
  const Key key = key_of(x);
  auto at = ways->find(key);
  if (at == ways->end()) at = ways->emplace(key, find_way(x)).first;
  const Way& way = at->second;
  if (!way.found) return false;
  const Library& lib = library();
  if (x.bias) lib.description_set(way.description, kBiasPointer, &x.bias, sizeof x.bias);
  const float beta = x.c ? 1.0f : 0.0f;
  const int status = lib.matmul(lib.handle, way.description, &x.alpha, x.a, way.a, x.b, way.b,
                                &beta, x.c ? x.c : x.d, way.c, x.d, way.d, &way.algorithm,
                                lib.workspace, kWorkspace, stream());
  if (status != 0) throw Error("cuda", "cuBLASLt refused a product: " + std::to_string(status));
  check_launch("product");
  return true;
}

}  // namespace fovea::cuda
