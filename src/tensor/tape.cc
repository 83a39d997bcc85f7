#include "tensor/tape.h"

#include <algorithm>
#include <atomic>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/node.h"

namespace fovea {
namespace {

thread_local bool recording = true;
std::atomic<uint64_t> recorded{0};

// Whether nobody else can see its numbers.
bool is_alone(const Tensor& t) {
  return t.impl()->weak_from_this().use_count() == 1 && t.impl()->storage.use_count() == 1 &&
         t.is_contiguous();
}

// Gradients that meet are summed: into the first of them where it is ours alone, else anew.
struct Sum {
  Tensor value;

  void add(const Tensor& g) {
    if (!value) {
      value = g;
    } else if (is_alone(value)) {
      value.add_(g);
    } else {
      value = value + g;
    }
  }
};

struct Later {
  bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
};

// One backward pass from `output`.
class Pass {
 public:
  explicit Pass(bool free_graph) : free_graph_(free_graph) {}

  // Only nodes from which one of these is reached will run.
  void aim_at(const Tensor& output, std::span<const Tensor> inputs);
  void run(const Tensor& output, const Tensor& d_output);

  void* kept_for(const std::shared_ptr<Node>& anchor, std::shared_ptr<void> (*make)());
  std::shared_ptr<void> take_kept();

  std::unordered_map<const void*, Sum> found;       // by leaf TensorImpl, or by Node when aimed at
  std::vector<std::shared_ptr<TensorImpl>> leaves;  // in the order they were met

 private:
  void send(const Edge& edge, const Tensor& g, const char* op);
  void enqueue(const std::shared_ptr<Node>&);
  bool leads_on(const Node&) const;
  void step(std::shared_ptr<Node> node, const Tensor& dy);

  bool free_graph_;
  bool aimed_ = false;
  std::unordered_set<const void*> wanted_;
  std::unordered_map<const Node*, Sum> waiting_;
  std::unordered_map<const Node*, std::shared_ptr<Node>> alive_;
  std::priority_queue<const Node*, std::vector<const Node*>, Later> queue_;
  std::unordered_map<const Node*, std::shared_ptr<void>> kept_;
  const Node* now_ = nullptr;
};

// The innermost of this thread.
thread_local Pass* running = nullptr;

struct Running {
  Pass* const before;
  explicit Running(Pass* pass) : before(std::exchange(running, pass)) {}
  ~Running() { running = before; }
};

const void* key_of(const Tensor& t) {
  return t.impl()->node ? static_cast<const void*>(t.impl()->node.get()) : t.impl();
}

// Null where no gradient is wanted; null is never among the wanted.
const void* key_of(const Edge& e) {
  return e.node ? static_cast<const void*>(e.node.get()) : e.leaf.get();
}

void Pass::aim_at(const Tensor& output, std::span<const Tensor> inputs) {
  aimed_ = true;
  std::unordered_set<const void*> targets;
  for (const Tensor& t : inputs) targets.insert(key_of(t));
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack;
  if (output.impl()->node) stack.push_back(output.impl()->node.get());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    nodes.push_back(node);
    for (const Edge& e : node->inputs) {
      if (e.node) stack.push_back(e.node.get());
    }
  }
  std::sort(nodes.begin(), nodes.end(), Later{});
  wanted_ = targets;
  for (const Node* node : nodes) {
    if (leads_on(*node)) wanted_.insert(node);
  }
  for (const void* t : targets) found[t];
}

void Pass::send(const Edge& edge, const Tensor& g, const char* op) {
  const void* key = key_of(edge);
  if (key == nullptr || !g || (aimed_ && wanted_.count(key) == 0)) return;
  const Shape& expected = edge.node ? edge.node->shape : edge.leaf->shape;
  if (g.shape() != expected) {
    throw Error("backward", std::string(op) + " gave a gradient of shape " + to_string(g.shape()) +
                                " for an input of shape " + to_string(expected));
  }
  if (edge.leaf) {
    if (!aimed_ && found.find(key) == found.end()) leaves.push_back(edge.leaf);
    found[key].add(g);
    return;
  }
  enqueue(edge.node);
  waiting_[edge.node.get()].add(g);
}

void Pass::enqueue(const std::shared_ptr<Node>& node) {
  if (alive_.emplace(node.get(), node).second) queue_.push(node.get());
}

void* Pass::kept_for(const std::shared_ptr<Node>& anchor, std::shared_ptr<void> (*make)()) {
  if (aimed_ && wanted_.count(anchor.get()) == 0) return nullptr;
  std::shared_ptr<void>& kept = kept_[anchor.get()];
  if (!kept) {
    kept = make();
    enqueue(anchor);
  }
  return kept.get();
}

std::shared_ptr<void> Pass::take_kept() { return std::move(kept_.extract(now_).mapped()); }

bool Pass::leads_on(const Node& node) const {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](const Edge& e) { return wanted_.count(key_of(e)) != 0; });
}

void Pass::step(std::shared_ptr<Node> node, const Tensor& dy) {
  if (node->freed) {
    throw Error("backward", std::string("the graph through ") + node->op +
                                " was freed by an earlier backward(); compute it again");
  }
  if (aimed_ && !leads_on(*node)) return;
  now_ = node.get();
  const Grads grads = node->backward(dy);
  if (grads.size() != node->inputs.size()) {
    throw Error("backward", std::string(node->op) + " gave " + std::to_string(grads.size()) +
                                " gradients for " + std::to_string(node->inputs.size()) +
                                " inputs");
  }
  for (size_t i = 0; i < grads.size(); ++i) send(node->inputs[i], grads[i], node->op);
  if (free_graph_) {
    node->freed = true;
    node->backward = nullptr;
    node->inputs.clear();
  }
}

void Pass::run(const Tensor& output, const Tensor& d_output) {
  const NoGrad off;
  const Running here(this);
  const auto& impl = *output.impl();
  if (impl.node) {
    send({impl.node, nullptr}, d_output, "backward");
  } else if (impl.leaf_requires_grad) {
    send({nullptr, output.impl()->shared_from_this()}, d_output, "backward");
  }
  while (!queue_.empty()) {
    const Node* node = queue_.top();
    queue_.pop();
    Tensor dy = std::move(waiting_[node].value);
    waiting_.erase(node);
    if (const auto hit = found.find(node); hit != found.end()) hit->second.add(dy);
    auto owner = std::move(alive_.at(node));
    alive_.erase(node);
    step(std::move(owner), dy);
  }
}

// grad += g; g itself becomes the gradient when nobody else holds it.
void accumulate(TensorImpl& leaf, Tensor g) {
  if (leaf.grad) {
    leaf.grad.add_(g);
    return;
  }
  leaf.grad = is_alone(g) ? g : g.detach().clone();
}

void check_start(const char* call, const Tensor& output, const Tensor& d_output) {
  if (!output) throw Error(call, "the tensor is undefined");
  if (output.dtype() != DType::f32) throw Error(call, "the tensor must be f32");
  if (!d_output || d_output.shape() != output.shape()) {
    throw Error(call, "the gradient to start from must have shape " + to_string(output.shape()) +
                          (d_output ? ", found " + to_string(d_output.shape()) : ""));
  }
  expect_together(call, {&output, &d_output});
}

}  // namespace

// Chains are taken down one by one, however long: what a dying node held is put aside, and the
// outermost of the nested calls lets go of it.
Node::~Node() {
  struct Held {
    std::vector<Edge> inputs;
    Backward backward;
  };
  thread_local std::vector<Held>* aside = nullptr;
  if (aside != nullptr) {
    aside->push_back({std::move(inputs), std::move(backward)});
    return;
  }
  std::vector<Held> all;
  aside = &all;
  all.push_back({std::move(inputs), std::move(backward)});
  while (!all.empty()) {
    const Held last = std::move(all.back());
    all.pop_back();
  }
  aside = nullptr;
}

Tensor anchors::record_use(const char* op, std::vector<Tensor> inputs, const Tensor& anchor,
                           Tensor output, Backward backward) {
  inputs.push_back(anchor);
  return record(op, std::move(inputs), std::move(output),
                [backward = std::move(backward)](const Tensor& d_output) {
                  Grads grads = backward(d_output);
                  grads.emplace_back();
                  return grads;
                });
}

void* anchors::kept_for(const Tensor& anchor, std::shared_ptr<void> (*make)()) {
  return running->kept_for(anchor.impl()->node, make);
}

std::shared_ptr<void> anchors::take_kept() { return running->take_kept(); }

Saved::Saved(const Tensor& t) {
  if (!t) return;
  tensor_ = t.detach();  // not t: it may be the output about to be recorded
  version_ = t.version();
}

const Tensor& Saved::get(const char* op) const {
  if (tensor_ && tensor_.version() != version_) {
    throw Error("backward", std::string("a tensor of shape ") + to_string(tensor_.shape()) +
                                " that " + op + " kept was changed in place since");
  }
  return tensor_;
}

bool grad_enabled() { return recording; }
NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }
Recording::Recording() : before_(recording) { recording = true; }
Recording::~Recording() { recording = before_; }

bool needs_grad(std::span<const Tensor> inputs) {
  return recording && std::any_of(inputs.begin(), inputs.end(),
                                  [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

Tensor record(const char* op, std::vector<Tensor> inputs, Tensor output, Backward backward) {
  if (!needs_grad(inputs)) return output;
  if (output.requires_grad()) output = output.detach();
  auto node = std::make_shared<Node>();
  node->op = op;
  node->sequence = recorded.fetch_add(1, std::memory_order_relaxed);
  node->shape = output.shape();
  node->backward = std::move(backward);
  node->inputs.reserve(inputs.size());
  for (const Tensor& t : inputs) {
    Edge edge;
    if (t && t.impl()->node) {
      edge.node = t.impl()->node;
    } else if (t && t.impl()->leaf_requires_grad) {
      edge.leaf = t.impl()->shared_from_this();
    }
    node->inputs.push_back(std::move(edge));
  }
  output.impl()->node = std::move(node);
  return output;
}

std::vector<Tensor> record(const char* op, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                           BackwardOfSeveral backward) {
  const size_t n = outputs.size();
  const Deferred<Grads> all(
      op, std::move(inputs),
      [backward = std::move(backward)](const Grads& d_outputs) { return backward(d_outputs); });
  if (!all) return outputs;
  for (size_t i = 0; i < n; ++i) {
    if (!outputs[i]) continue;
    outputs[i] = all.use(op, {}, outputs[i], [i, n](const Tensor& d_output, Grads* d_outputs) {
      d_outputs->resize(n);  // here whenever this runs: the output has no other input
      (*d_outputs)[i] = d_output;
      return Grads{};
    });
  }
  return outputs;
}

bool Tensor::requires_grad() const {
  return impl_ && (impl_->leaf_requires_grad || impl_->node != nullptr);
}

Tensor& Tensor::set_requires_grad(bool on) {
  expect_dtype("set_requires_grad", "the tensor", *this, DType::f32);
  if (impl_->node) throw Error("set_requires_grad", "only a leaf can be set; this is a result");
  impl_->leaf_requires_grad = on;
  return *this;
}

Tensor Tensor::grad() const {
  expect_defined("grad", "the tensor", *this);
  return impl_->grad;
}

void Tensor::set_grad(const Tensor& g) {
  expect_defined("set_grad", "the tensor", *this);
  if (g && g.shape() != shape()) {
    throw Error("set_grad", "the gradient has shape " + to_string(g.shape()) + ", the tensor has " +
                                to_string(shape()));
  }
  impl_->grad = g;
}

void Tensor::zero_grad() {
  expect_defined("zero_grad", "the tensor", *this);
  impl_->grad = {};
}

void Tensor::backward() const {
  expect_defined("backward", "the tensor", *this);
  if (numel() != 1) {
    throw Error("backward", "a tensor of shape " + to_string(shape()) +
                                " needs a gradient to start from; only one element starts from 1");
  }
  backward(full_at(*this, shape(), 1.0f));
}

void Tensor::backward(const Tensor& d_this) const {
  check_start("backward", *this, d_this);
  if (!requires_grad()) throw Error("backward", "nothing this tensor was made of needs a gradient");
  Pass pass(true);
  pass.run(*this, d_this);
  const NoGrad off;
  for (const auto& leaf : pass.leaves) {
    accumulate(*leaf, std::move(pass.found[leaf.get()].value));
  }
}

std::vector<Tensor> gradients(const Tensor& output, const Tensor& d_output,
                              std::span<const Tensor> inputs) {
  check_start("gradients", output, d_output);
  for (const Tensor& t : inputs) expect_dtype("gradients", "an input", t, DType::f32);
  Pass pass(false);
  pass.aim_at(output, inputs);
  pass.run(output, d_output);
  std::vector<Tensor> result;
  for (const Tensor& t : inputs) {
    const Tensor& g = pass.found[key_of(t)].value;
    result.push_back(g ? g : zeros_at(t, t.shape()));
  }
  return result;
}

}  // namespace fovea
