#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/kept.h"
#include "fovea/tensor.h"
#include "io/tensor_reader.h"
#include "kernels/narrow.h"

// What the files of a checkpoint hold, and how tensors of ours are made of it.
namespace fovea::checkpoints {

// The tensors of all files by name; headers alone are read. A tensor that two files have is
// refused.
class StoredTensors {
 public:
  // `prefix`: what may stand before the names of the inner model, or may not.
  StoredTensors(const std::vector<std::filesystem::path>& files, std::string prefix);
  // Names and shapes of tensors that lie nowhere.
  StoredTensors(const std::map<std::string, Shape>& listed, std::string prefix);

  // The name in the files: with the prefix or without, LayerNorm's gamma and beta of old; the name
  // as it is where there is none.
  std::string name_of(const std::string& name) const;
  bool has(const std::string& name) const;
  const Shape* shape_of(const std::string& name) const;  // null where there is none
  std::vector<std::string> names() const;                // as the files have them
  std::map<std::string, int64_t> types() const;          // numbers by stored type: {"BF16": 5}
  int64_t bytes() const;                                 // of all data

  DType type_of(const std::string& name) const;  // what holds it as it is stored
  void read(const std::string& name, DType, void* to) const;

 private:
  struct Place {
    size_t file;
    const safetensors::Entry* entry;
  };
  const Place* find(const std::string& name) const;

  std::vector<TensorReader> files_;
  std::vector<safetensors::Entry> listed_;
  std::map<std::string, Place> places_;
  std::string prefix_;
};

// A tensor of the files that becomes rows of one of ours.
struct StoredPart {
  std::string name;
  Shape shape;              // as it is stored
  bool transposed = false;  // stored [in, out]
};

// One of our tensors: plus + times · (parts one under the other). All of it is data, so that ours
// can be taken apart into theirs again.
struct TensorRecipe {
  std::vector<StoredPart> parts;
  Shape shape = {};  // of ours, where it is another than the parts'
  float times = 1.0f, plus = 0.0f;
  std::function<Tensor()> computed = {};  // of nothing that is stored; nobody learns it
};
bool is_plain(const TensorRecipe&);                  // the parts as they are
Shape shape_of(const std::vector<StoredPart>&);      // one under the other
using Recipe = std::map<std::string, TensorRecipe>;  // by our names

// Throws where a part is missing or of another shape than the config asks for, naming the file's
// tensor; or where the files hold a tensor that nothing is made of and `passed_by` does not know.
void check(const StoredTensors&, const Recipe&,
           const std::function<bool(const std::string&)>& passed_by);

// What one of ours becomes: matrices of layers, NAME.weight [out,in], are kept as asked for, unless
// they are computed; others are f32.
DType type_of(const StoredTensors&, const std::string& ours, const TensorRecipe&, KeptAs);

struct MadeTensors {
  Tensors tensors;
  kernels::Narrowed cost;  // of types other than the stored ones
};
// Makes them all. What is made of the same parts is the same tensor.
MadeTensors read(const StoredTensors&, const Recipe&, KeptAs);

// The other way: theirs, by the parts' names, of ours. Of what several are made of, the first
// counts.
Tensors taken_apart(const Tensors& ours, const Recipe&);

}  // namespace fovea::checkpoints
