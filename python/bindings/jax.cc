#include "jax.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "choice.h"
#include "fovea/attention.h"
#include "xla_call.h"

// Attention for JAX on the CPU, forward and backward, on the buffers that XLA gives.
//   attend:    q, k, v, parameters → context, stat, chosen (int32; one zero where nothing is
//   chosen) backward:  q, k, v, parameters, context, stat, chosen, d_context → d of each float32
//   among the
//              first of them
// Attributes: how, the name of a choice; seed.
namespace nb = nanobind;

namespace fovea::python {
namespace {

std::mutex choices_mutex;
std::map<std::string, Choice, std::less<>> choices;

Choice choice_named(std::string_view how) {
  const std::lock_guard lock(choices_mutex);
  const auto found = choices.find(how);
  if (found == choices.end()) {
    throw Error("attend",
                "this program was traced by another process; import fovea.jax and trace it here");
  }
  return found->second;
}

template <class T>
const T& attribute(const xla::Call& call, std::string_view name, xla::AttributeKind kind) {
  for (int64_t i = 0; i < call.attributes.count; ++i) {
    if (call.attributes.names[i]->view() == name && call.attributes.kinds[i] == kind)
      return *static_cast<const T*>(call.attributes.all[i]);
  }
  throw Error("attend", "XLA gave no attribute " + std::string(name));
}

Tensor tensor_of(const xla::Buffer& b) {
  const Shape shape(b.dims, b.dims + b.rank);
  if (b.type == xla::kInt32) {  // JAX's usual integers
    Tensor ids = Tensor::empty(shape, DType::i64);
    const auto* from = static_cast<const int32_t*>(b.data);
    std::copy(from, from + ids.numel(), ids.mutable_data<int64_t>());
    return ids;
  }
  const DType dtype = b.type == xla::kFloat32 ? DType::f32
                      : b.type == xla::kInt64 ? DType::i64
                                              : DType::boolean;
  if (dtype == DType::boolean && b.type != xla::kBool)
    throw Error("attend", "an array is neither float32, int32, int64 nor bool");
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return Tensor::borrow(b.data, shape, strides, nullptr, dtype);
}

void write(const Tensor& from, const xla::Buffer& to) {
  Tensor out = tensor_of(to);
  out.copy_(from);
}

void write_chosen(const Computed& c, const xla::Buffer& to) {
  auto* ids = static_cast<int32_t*>(to.data);
  if (!c.chosen) {
    *ids = 0;
    return;
  }
  for (const int64_t key : c.chosen.to_ids()) *ids++ = static_cast<int32_t>(key);
}

struct JaxCall {
  Choice choice;
  uint64_t seed;
  std::vector<Tensor> inputs;  // q, k, v and the parameters

  explicit JaxCall(const xla::Call& call)
      : choice(choice_named(attribute<xla::Bytes>(call, "how", xla::kString).view())) {
    const auto& scalar = attribute<xla::Scalar>(call, "seed", xla::kScalar);
    std::memcpy(&seed, scalar.value, sizeof seed);
    const int64_t n = 3 + static_cast<int64_t>(choice.parameters().size());
    for (int64_t i = 0; i < n; ++i) inputs.push_back(tensor_of(call.arguments[i]));
  }
  Attention attention() const { return choice.with({inputs.begin() + 3, inputs.end()}, seed); }
};

void run_attend(const xla::Call& call) {
  const NoGrad quiet;
  const JaxCall x(call);
  const Computed c =
      attend(x.inputs[0], x.inputs[1], x.inputs[2], x.attention(), {.plan = x.choice.plan()})
          .computed();
  write(c.context, call.results[0]);
  write(c.stat, call.results[1]);
  write_chosen(c, call.results[2]);
}

void run_backward(const xla::Call& call) {
  JaxCall x(call);
  const auto n = std::ssize(x.inputs);
  Computed c{tensor_of(call.arguments[n]), tensor_of(call.arguments[n + 1]), {}};
  if (x.choice.hard()) c.chosen = tensor_of(call.arguments[n + 2]);
  std::vector<Tensor> leaves;
  for (Tensor& t : x.inputs) {
    if (t.dtype() == DType::f32) leaves.push_back(t.set_requires_grad());
  }
  const Attended a =
      attended(x.inputs[0], x.inputs[1], x.inputs[2], x.attention(), c, {.plan = x.choice.plan()});
  const auto grads = gradients(a.context, tensor_of(call.arguments[n + 3]), leaves);
  for (int64_t i = 0; i < std::ssize(grads); ++i) write(grads[i], call.results[i]);
}

template <void (*run)(const xla::Call&)>
xla::Error* handler(xla::Call* call) {
  if (call->extensions != nullptr && call->extensions->type == 1) {
    xla::Metadata& m = *reinterpret_cast<xla::MetadataExtension*>(call->extensions)->metadata;
    m.version.major = 0, m.version.minor = 1;
    m.traits = 0;
    return nullptr;
  }
  if (call->stage != xla::kExecute) return nullptr;
  try {
    run(*call);
    return nullptr;
  } catch (const std::exception& e) {
    xla::MakeError error{sizeof(xla::MakeError), nullptr, e.what(), 3};
    return call->api->make_error(&error);
  }
}

nb::capsule capsule_of(xla::Error* (*function)(xla::Call*)) {
  return nb::capsule(reinterpret_cast<void*>(function), "xla._CUSTOM_CALL_TARGET");
}

}  // namespace

void bind_jax(nb::module_& m) {
  m.def("jax_targets", [] {
    return nb::make_tuple(capsule_of(handler<run_attend>), capsule_of(handler<run_backward>));
  });
  m.def("jax_remember", [](const std::string& how, const Choice& choice) {
    const std::lock_guard lock(choices_mutex);
    choices.insert_or_assign(how, choice);
  });
}

}  // namespace fovea::python
