#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <functional>

#include "arrays.h"
#include "attention/layout.h"
#include "choice.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"
#include "jax.h"

// fovea._engine: the engine as the package's Python sees it. What a user sees is in python/fovea.
namespace nb = nanobind;

namespace fovea::python {
namespace {

using nb::literals::operator""_a;

using Take = Tensor (*)(const char*, const char*, nb::handle);

// q, k, v and what else a call has, in the order of its choice's names.
struct Inputs {
  Tensor q, k, v;
  std::vector<Tensor> parameters;
};

// From a tuple (…, q, k, v, *parameters): q at `first`.
Inputs take_inputs(Take take, const Choice& choice, const nb::tuple& all, size_t first = 0) {
  if (all.size() < first + 3) throw Error("attend", "q, k and v are missing");
  Inputs in{take("attend", "q", all[first]),
            take("attend", "k", all[first + 1]),
            take("attend", "v", all[first + 2]),
            {}};
  const std::vector<std::string>& names = choice.parameters();
  for (size_t i = first + 3; i < all.size(); ++i) {
    const size_t p = i - first - 3;
    in.parameters.push_back(take("attend", p < names.size() ? names[p].c_str() : "?", all[i]));
  }
  return in;
}

// ---- NumPy and whoever has DLPack --------------------------------------------------------------

// A result that gives arrays of its caller's kind.
struct Given {
  Attended attended;
  Kind kind;

  template <class Look>
  nb::object give(const Look& look) const {
    Tensor t;
    {
      const nb::gil_scoped_release others;
      const NoGrad quiet;
      t = look(attended);
    }
    return python::give(t, kind);
  }
};

Given attend_arrays(const nb::tuple& inputs, const Choice& choice, uint64_t seed, Kind kind) {
  const Inputs in = take_inputs(take, choice, inputs);
  const nb::gil_scoped_release others;
  const NoGrad quiet;
  return {attend(in.q, in.k, in.v, choice.with(in.parameters, seed), {.plan = choice.plan()}),
          kind};
}

nb::tuple top(const Given& g, int64_t k, const Select& select) {
  TopK found;
  {
    const nb::gil_scoped_release others;
    found = g.attended.top(k, select);
  }
  return nb::make_tuple(give(found.weights, g.kind), give(found.keys, g.kind));
}

// ---- PyTorch's operators -----------------------------------------------------------------------

// One of the things that a result can be asked for, on the tape.
Tensor look_of(const Attended& a, const std::string& of, const Select& select) {
  if (of == "context") return a.context;
  if (of == "weights") return a.weights(select);
  if (of == "lse") return a.log_sum_exp();
  if (of == "entropy") return a.entropy();
  if (of == "log_prob") return a.log_prob();
  throw Error("look",
              "there is no \"" + of + "\"; there are context, weights, lse, entropy, log_prob");
}

struct Quantity {
  std::string of;
  Select select;
};

// A call that was computed, as (context, stat, chosen, q, k, v, *parameters).
struct Call {
  Inputs in;
  Computed computed;

  Call(const Choice& choice, const nb::tuple& all)
      : in(take_inputs(take_torch, choice, all, 3)),
        computed{
            take_torch("attended", "context", all[0]), take_torch("attended", "stat", all[1]), {}} {
    if (choice.hard()) computed.chosen = take_torch("attended", "chosen", all[2]);
  }
  Attended attended(const Choice& choice, uint64_t seed) const {
    return fovea::attended(in.q, in.k, in.v, choice.with(in.parameters, seed), computed,
                           {.plan = choice.plan()});
  }
};

nb::tuple torch_attend(const nb::tuple& inputs, const Choice& choice, uint64_t seed) {
  const Inputs in = take_inputs(take_torch, choice, inputs);
  Computed c;
  {
    const nb::gil_scoped_release others;
    const NoGrad quiet;
    c = attend(in.q, in.k, in.v, choice.with(in.parameters, seed), {.plan = choice.plan()})
            .computed();
  }
  return nb::make_tuple(give(c.context, Kind::torch), give(c.stat, Kind::torch),
                        c.chosen ? give(c.chosen, Kind::torch) : nb::none());
}

nb::object torch_look(const nb::tuple& all, const Choice& choice, uint64_t seed,
                      const Quantity& quantity) {
  const Call call(choice, all);
  Tensor t;
  {
    const nb::gil_scoped_release others;
    const NoGrad quiet;
    t = look_of(call.attended(choice, seed), quantity.of, quantity.select).contiguous();
    // What the call computed stays its own.
    if (t.data<float>() == call.computed.stat.data<float>()) t = t.clone();
  }
  return give(t, Kind::torch);
}

nb::tuple torch_top(const nb::tuple& all, const Choice& choice, uint64_t seed, int64_t k,
                    const Select& select) {
  const Call call(choice, all);
  TopK found;
  {
    const nb::gil_scoped_release others;
    const NoGrad quiet;
    found = call.attended(choice, seed).top(k, select);
  }
  return nb::make_tuple(give(found.weights, Kind::torch), give(found.keys, Kind::torch));
}

// In the memory order of its input, as the operator's fake says.
Tensor laid_as(const Tensor& input, const Tensor& gradient) {
  if (gradient.strides() == input.strides()) return gradient;
  Tensor right = empty_in_order_of(input, input.shape());
  if (right.strides() == gradient.strides()) return gradient;
  right.copy_(gradient);
  return right;
}

// Of each input, in their order: None where it is not needed.
nb::list torch_backward(nb::handle d, const nb::tuple& needs, const nb::tuple& all,
                        const Choice& choice, uint64_t seed, const Quantity& quantity) {
  Call call(choice, all);
  const Tensor upstream = take_torch("attend_backward", "d", d);
  std::vector<Tensor*> inputs{&call.in.q, &call.in.k, &call.in.v};
  for (Tensor& t : call.in.parameters) inputs.push_back(&t);
  std::vector<Tensor> wanted;
  std::vector<bool> needed(inputs.size());
  for (size_t i = 0; i < inputs.size() && i < needs.size(); ++i) {
    needed[i] = nb::handle(needs[i]).is(nb::handle(Py_True));
    if (needed[i]) wanted.push_back(inputs[i]->set_requires_grad());
  }
  std::vector<Tensor> found;
  {
    const nb::gil_scoped_release others;
    found = gradients(look_of(call.attended(choice, seed), quantity.of, quantity.select), upstream,
                      wanted);
    for (size_t w = 0; w < wanted.size(); ++w) found[w] = laid_as(wanted[w], found[w]);
  }
  nb::list gradients;
  auto next = found.begin();
  for (const bool need : needed) gradients.append(need ? give(*next++, Kind::torch) : nb::none());
  return gradients;
}

// ---- for the benchmark -------------------------------------------------------------------------

// Seconds a call takes without Python.
double seconds_a_call(int64_t calls, const std::function<void()>& call) {
  const auto begun = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() /
         static_cast<double>(calls);
}

double time_forward(const nb::tuple& qkv, const Choice& choice, int64_t calls) {
  const Inputs in = take_inputs(take, choice, qkv);
  const nb::gil_scoped_release others;
  const NoGrad quiet;
  const Attention chosen = choice.with({}, 0);
  return seconds_a_call(calls, [&] { attend(in.q, in.k, in.v, chosen); });
}

double time_both(const nb::tuple& qkv, const Choice& choice, int64_t calls) {
  Inputs in = take_inputs(take, choice, qkv);
  const nb::gil_scoped_release others;
  const Attention chosen = choice.with({}, 0);
  const std::vector<Tensor> leaves{in.q.set_requires_grad(), in.k.set_requires_grad(),
                                   in.v.set_requires_grad()};
  return seconds_a_call(calls, [&] {
    const Tensor context = attend(in.q, in.k, in.v, chosen).context;
    gradients(context, context.detach(), leaves);
  });
}

// ---- lists -------------------------------------------------------------------------------------

nb::list listed(const std::vector<Listed>& all) {
  nb::list rows;
  for (const Listed& one : all) {
    nb::dict row;
    row["name"] = one.name;
    row["formula"] = one.formula;
    row["parameters"] = one.parameters;
    row["numbers"] = one.numbers;
    row["hard"] = one.hard;
    rows.append(row);
  }
  return rows;
}

}  // namespace

// Sub-modules of the class below, one for each way in.
void bind_arrays(nb::module_& m) {
  nb::enum_<Kind>(m, "Kind")
      .value("numpy", Kind::numpy)
      .value("torch", Kind::torch)
      .value("dlpack", Kind::dlpack);
  nb::class_<Choice>(m, "Choice")
      .def(
          "__init__",
          [](Choice* self, std::string score, std::string mask, std::string weighting,
             std::vector<std::string> parameters, std::optional<float> scale,
             std::optional<float> softcap, float temperature, float dropout, std::string plan) {
            new (self) Choice({score, mask, weighting, std::move(parameters)},
                              {scale, softcap, temperature, dropout, plan});
          },
          "score"_a, "mask"_a, "weighting"_a, "parameters"_a, "scale"_a.none(), "softcap"_a.none(),
          "temperature"_a, "dropout"_a, "plan"_a)
      .def_prop_ro("parameters", &Choice::parameters)
      .def_prop_ro("hard", &Choice::hard);
  nb::class_<Given>(m, "Given")
      .def_prop_ro("context", [](const Given& g) { return give(g.attended.context, g.kind); })
      .def_prop_ro("plan", [](const Given& g) { return name_of(g.attended.plan()); })
      .def("weights",
           [](const Given& g, std::vector<int64_t> heads, std::vector<int64_t> rows) {
             const Select select{std::move(heads), std::move(rows)};
             return g.give([&](const Attended& a) { return a.weights(select); });
           })
      .def("top",
           [](const Given& g, int64_t k, std::vector<int64_t> heads, std::vector<int64_t> rows) {
             return top(g, k, {std::move(heads), std::move(rows)});
           })
      .def("lse",
           [](const Given& g) { return g.give([](const Attended& a) { return a.log_sum_exp(); }); })
      .def("entropy",
           [](const Given& g) { return g.give([](const Attended& a) { return a.entropy(); }); })
      .def("chosen",
           [](const Given& g) { return g.give([](const Attended& a) { return a.chosen(); }); })
      .def("log_prob",
           [](const Given& g) { return g.give([](const Attended& a) { return a.log_prob(); }); });
  // Where the engine reads an array, for tests.
  m.def("address_of", [](nb::handle array) {
    return reinterpret_cast<uintptr_t>(take("address_of", "array", array).data<float>());
  });
  m.def("attend", &attend_arrays, "inputs"_a, "choice"_a, "seed"_a, "kind"_a);
}

void bind_torch(nb::module_& m) {
  m.def("know_torch", &know_torch, "f32"_a, "i64"_a, "boolean"_a, "exchange"_a.none());
  m.def("torch_attend", &torch_attend, "inputs"_a, "choice"_a, "seed"_a);
  m.def(
      "torch_look",
      [](const nb::tuple& all, const Choice& choice, uint64_t seed, std::string of,
         std::vector<int64_t> heads, std::vector<int64_t> rows) {
        return torch_look(all, choice, seed, {std::move(of), {std::move(heads), std::move(rows)}});
      },
      "call"_a, "choice"_a, "seed"_a, "of"_a, "heads"_a, "rows"_a);
  m.def(
      "torch_top",
      [](const nb::tuple& all, const Choice& choice, uint64_t seed, int64_t k,
         std::vector<int64_t> heads, std::vector<int64_t> rows) {
        return torch_top(all, choice, seed, k, {std::move(heads), std::move(rows)});
      },
      "call"_a, "choice"_a, "seed"_a, "k"_a, "heads"_a, "rows"_a);
  m.def(
      "torch_backward",
      [](nb::handle d, const nb::tuple& needs, const nb::tuple& all, const Choice& choice,
         uint64_t seed) {
        return torch_backward(d, needs, all, choice, seed, {"context", {}});
      },
      "d"_a, "needs"_a, "call"_a, "choice"_a, "seed"_a);
  m.def(
      "torch_look_backward",
      [](nb::handle d, const nb::tuple& needs, const nb::tuple& all, const Choice& choice,
         uint64_t seed, std::string of, std::vector<int64_t> heads, std::vector<int64_t> rows) {
        return torch_backward(d, needs, all, choice, seed,
                              {std::move(of), {std::move(heads), std::move(rows)}});
      },
      "d"_a, "needs"_a, "call"_a, "choice"_a, "seed"_a, "of"_a, "heads"_a, "rows"_a);
}

void bind_runtime(nb::module_& m) {
  m.def("time_forward", &time_forward, "qkv"_a, "choice"_a, "calls"_a);
  m.def("time_both", &time_both, "qkv"_a, "choice"_a, "calls"_a);
  m.def("threads", &threads, "How many threads a call may use.");
  m.def("set_threads", &set_threads, "n"_a, "From now on a call may use n threads, 1 to 4096.");
  m.def("isa", &isa, "The instruction set in use, as in avx3; FOVEA_ISA asks for another.");
  m.def("version", &version);
  m.def("memory_in_use", &memory_in_use, "Bytes that the engine's tensors take now.");
  m.def("memory_peak", &memory_peak, "The most bytes at once since reset_memory_peak().");
  m.def("reset_memory_peak", &reset_memory_peak, "Peaks are counted from now on.");
  m.def(
      "scores", [] { return listed(list_scores()); },
      "Each score: its name, formula, parameters with their shapes, and numbers.");
  m.def(
      "masks", [] { return listed(list_masks()); },
      "Each mask: its name, formula, parameters with their shapes, and numbers.");
  m.def(
      "weightings", [] { return listed(list_weightings()); },
      "Each weighting: its name, formula, parameters, and whether it chooses one key (hard).");
  memory_in_use();  // the allocator, before anybody can fork
}

}  // namespace fovea::python

NB_MODULE(_engine, m) {
  nb::set_leak_warnings(false);  // caches and operators live until the interpreter ends
  fovea::python::translate_errors();
  fovea::python::bind_arrays(m);
  fovea::python::bind_torch(m);
  fovea::python::bind_jax(m);
  fovea::python::bind_runtime(m);
}
