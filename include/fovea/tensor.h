#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/device.h"
#include "fovea/error.h"
// Tensors of floats, ids and masks, and the tape that gives their gradients.
namespace fovea {

// What an element is. bf16, f16 and i8 are weights that nobody learns, kept in fewer bits: linear()
// and embedding() take them as they are, with sums in float32; from 20 rows on linear() may round
// those to bf16 or 8 bits, too (docs/kernels.md). attend() takes bf16 and f16; others want
// to(DType::f32). i8 has a scale for each row of the last dimension. A GPU computes with bf16 as
// with f32 (docs/gpu.md).
enum class DType : uint8_t { f32, i64, boolean, bf16, f16, i8 };

using Shape = std::vector<int64_t>;  // sizes, the outermost first

FOVEA_API int64_t size_of(DType);               // bytes of one element
FOVEA_API const char* name_of(DType);           // "f32", "i64", "bool", "bf16", …
FOVEA_API bool is_weights(DType);               // f32, or what stands for it in fewer bits
FOVEA_API std::string to_string(const Shape&);  // "[2, 3]"

struct TensorImpl;  // src/tensor/impl.h

// A handle to a strided view of storage. Copying the handle shares the data. Views (reshape of a
// contiguous tensor, transpose, slice, expand, ...) share storage too, and are differentiable.
// Computation is float32; ids are int64; masks are bool (one byte an element). What is computed of
// tensors is where they are; floats on different devices do not meet, ids and masks of the CPU are
// brought along.
class FOVEA_API Tensor {
 public:
  Tensor() = default;  // undefined: stands for "absent" wherever a tensor is optional

  static Tensor empty(const Shape&, DType = DType::f32);
  static Tensor empty(const Shape&, DType, Device);
  static Tensor zeros(const Shape&, DType = DType::f32);
  static Tensor full(const Shape&, float value);
  static Tensor scalar(float value);  // shape []
  static Tensor from(std::span<const float>, const Shape&);
  static Tensor from(std::initializer_list<float>, const Shape&);
  static Tensor from_ids(std::span<const int64_t>, const Shape&);
  static Tensor from_bools(std::span<const uint8_t>, const Shape&);
  static Tensor arange(int64_t n);  // int64 0 … n−1
  // A view of memory that is not the library's: `data` is the first element, strides are in
  // elements (0 and negative too). `owner` is held as long as a tensor shares it; null: the caller
  // sees to that. Changes that others make to it are not noticed (see version()).
  static Tensor borrow(void* data, const Shape&, const Shape& strides, std::shared_ptr<void> owner,
                       DType = DType::f32);
  // Normal and uniform [0, 1) numbers; element i depends on (seed, i) alone.
  static Tensor randn(const Shape&, uint64_t seed);
  static Tensor rand(const Shape&, uint64_t seed);

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const;
  const Shape& strides() const;  // in elements; may be 0 or negative
  int64_t size(int dim) const;   // dim counts from the end when negative
  int rank() const;
  int64_t numel() const;
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;

  // The first element of this view; float for f32, int64_t for i64, uint8_t for bool. Of tensors on
  // the CPU alone.
  template <class T>
  const T* data() const;
  // For writing; counts as an in-place change (see version()).
  template <class T>
  T* mutable_data();
  float item() const;                    // the one element of a one-element f32 tensor
  std::vector<float> to_vector() const;  // a copy in row-major order (f32)
  std::vector<int64_t> to_ids() const;

  // Views. Dimensions count from the end when negative.
  Tensor reshape(const Shape&) const;  // one −1 allowed; copies when the strides demand it
  Tensor transpose(int a, int b) const;
  Tensor permute(const std::vector<int>& order) const;
  Tensor slice(int dim, int64_t start, int64_t stop, int64_t step = 1) const;
  Tensor select(int dim, int64_t index) const;
  Tensor expand(const Shape&) const;  // stride 0 along broadcast dimensions
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  // Any view by sizes, strides (0 and negative too) and an offset in elements from this view's
  // first element. Overlaps are allowed: their gradients add up.
  Tensor as_strided(const Shape&, const Shape& strides, int64_t offset) const;
  Tensor contiguous() const;  // itself when already so
  Tensor clone() const;       // a differentiable copy
  // Between f32, bf16 and f16 differentiable: the gradient, which is f32, goes on as it is, or as
  // bf16 where a GPU computes with that. i8 is s·q by rows, whole q from −127 to 127, s =
  // max|w|/127.
  Tensor to(DType) const;
  Tensor to(Device) const;  // itself when already there; differentiable

  // In place; only outside the tape (on tensors that need no gradient) and under NoGrad.
  Tensor& copy_(const Tensor& source);  // source broadcasts, and may be on another device
  Tensor& fill_(float value);
  Tensor& add_(const Tensor& other, float scale = 1.0f);
  Tensor& mul_(float factor);
  // Changes of the storage so far; backward() throws where a saved tensor was changed since.
  uint64_t version() const;

  // Gradients. backward() on a one-element tensor starts from 1; gradients accumulate in grad().
  bool requires_grad() const;
  Tensor& set_requires_grad(bool = true);  // leaves only
  Tensor grad() const;                     // undefined before the first backward()
  void set_grad(const Tensor&);
  void zero_grad();
  void backward() const;
  void backward(const Tensor& d_this) const;
  Tensor detach() const;  // the same data, off the tape

  TensorImpl* impl() const { return impl_.get(); }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<TensorImpl> impl_;
};

extern template FOVEA_API const float* Tensor::data<float>() const;  // f32
extern template FOVEA_API const int64_t* Tensor::data<int64_t>() const;
extern template FOVEA_API const uint8_t* Tensor::data<uint8_t>() const;
extern template FOVEA_API float* Tensor::mutable_data<float>();
extern template FOVEA_API int64_t* Tensor::mutable_data<int64_t>();
extern template FOVEA_API uint8_t* Tensor::mutable_data<uint8_t>();

using Tensors = std::map<std::string, Tensor>;  // by name

// While one lives on a thread, that thread records nothing on the tape.
class FOVEA_API NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
FOVEA_API bool grad_enabled();

// d outputs/d inputs without touching any grad(): one gradient per input, zeros where unconnected.
FOVEA_API std::vector<Tensor> gradients(const Tensor& output, const Tensor& d_output,
                                        std::span<const Tensor> inputs);

}  // namespace fovea
