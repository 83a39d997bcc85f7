#include "checkpoints/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tensor/bytes.h"
#include "tensor/impl.h"

namespace fovea::checkpoints {
namespace {

[[noreturn]] void refuse_tensor(const std::string& why) { throw Error("open", why); }

std::string quoted(const std::string& name) { return safetensors::in_quotes(name); }

// What LayerNorm's tensors were called at first.
std::string old_name(std::string name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOld = {
      {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}};
  for (const auto& [now, before] : kOld) {
    if (name.ends_with(now)) name.replace(name.size() - now.size(), now.size(), before);
  }
  return name;
}

Tensor stored_tensor(const StoredTensors& stored, const StoredPart& part, DType dtype) {
  const Tensor t = Tensor::empty(part.shape, dtype, Device::cpu);
  stored.read(part.name, dtype, bytes_of(t));
  return part.transposed ? t.transpose(0, 1) : t;
}

// What all of them are stored as; f32 where they differ.
DType stored_type(const StoredTensors& stored, const std::vector<StoredPart>& parts) {
  const DType first = parts.empty() ? DType::f32 : stored.type_of(parts[0].name);
  const bool alike = std::all_of(parts.begin(), parts.end(), [&](const StoredPart& part) {
    return stored.type_of(part.name) == first;
  });
  return alike ? first : DType::f32;
}

// In dimension 0 of what it becomes rows of.
int64_t rows_of(const StoredPart& part) { return part.transposed ? part.shape[1] : part.shape[0]; }

Tensor parts_of(const StoredTensors& stored, const std::vector<StoredPart>& parts, DType dtype) {
  Tensor whole = Tensor::empty(shape_of(parts), dtype, Device::cpu);
  if (whole.numel() == 0) return whole;
  const int64_t row = whole.numel() / whole.size(0) * size_of(dtype);  // bytes
  int64_t at = 0;
  for (const StoredPart& part : parts) {
    const int64_t rows = rows_of(part);
    if (part.transposed) {
      whole.slice(0, at, at + rows).copy_(stored_tensor(stored, part, dtype));
    } else {
      stored.read(part.name, dtype, bytes_of(whole) + at * row);
    }
    at += rows;
  }
  return whole;
}

// What a tensor is made of, as a text: two that are alike share their memory.
std::string key_of(const TensorRecipe& from) {
  std::string key;
  for (const StoredPart& part : from.parts) key += part.name + (part.transposed ? "ᵀ\n" : "\n");
  return key;
}

}  // namespace

StoredTensors::StoredTensors(const std::vector<std::filesystem::path>& files, std::string prefix)
    : prefix_(std::move(prefix)) {
  files_.reserve(files.size());
  for (const std::filesystem::path& file : files) files_.emplace_back(file);
  for (size_t f = 0; f < files_.size(); ++f) {
    for (const safetensors::Entry& entry : files_[f].header().entries) {
      const auto [there, added] = places_.emplace(entry.name, Place{f, &entry});
      if (added) continue;
      refuse_tensor(fmt::format("tensor {} is in {} and again in {}", quoted(entry.name),
                                files_[there->second.file].path().string(),
                                files_[f].path().string()));
    }
  }
}

StoredTensors::StoredTensors(const std::map<std::string, Shape>& listed, std::string prefix)
    : prefix_(std::move(prefix)) {
  listed_.reserve(listed.size());
  for (const auto& [name, shape] : listed) {
    listed_.push_back({.name = name, .shape = shape});
    places_.emplace(name, Place{0, &listed_.back()});
  }
}

std::string StoredTensors::name_of(const std::string& name) const {
  const std::string bare = name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  for (const std::string& one :
       {prefix_ + name, name, bare, prefix_ + old_name(name), old_name(name)}) {
    if (places_.contains(one)) return one;
  }
  return name;
}

const StoredTensors::Place* StoredTensors::find(const std::string& name) const {
  const auto found = places_.find(name_of(name));
  return found == places_.end() ? nullptr : &found->second;
}

bool StoredTensors::has(const std::string& name) const { return find(name) != nullptr; }

const Shape* StoredTensors::shape_of(const std::string& name) const {
  const Place* place = find(name);
  return place == nullptr ? nullptr : &place->entry->shape;
}

std::vector<std::string> StoredTensors::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : places_) all.push_back(name);
  return all;
}

std::map<std::string, int64_t> StoredTensors::types() const {
  std::map<std::string, int64_t> count;
  for (const auto& [name, place] : places_) count[place.entry->type->name] += place.entry->numel;
  return count;
}

int64_t StoredTensors::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, place] : places_) {
    bytes += static_cast<int64_t>(place.entry->end - place.entry->begin);
  }
  return bytes;
}

DType StoredTensors::type_of(const std::string& name) const {
  const Place* place = find(name);
  return place == nullptr ? DType::f32 : fovea::kept_as(*place->entry);
}

void StoredTensors::read(const std::string& name, DType dtype, void* to) const {
  const Place* place = find(name);
  if (place == nullptr || files_.empty()) {
    refuse_tensor(fmt::format("tensor {} is missing", quoted(name)));
  }
  files_[place->file].read(*place->entry, dtype, to);
}

bool is_plain(const TensorRecipe& from) {
  return from.shape.empty() && from.times == 1.0f && from.plus == 0.0f && !from.computed;
}

// Sizes of dimension 0 add up; the others agree.
Shape shape_of(const std::vector<StoredPart>& parts) {
  Shape shape;
  for (const StoredPart& part : parts) {
    Shape own = part.shape;
    if (part.transposed) std::swap(own[0], own[1]);
    if (shape.empty()) {
      shape = own;
    } else {
      shape[0] += own[0];
    }
  }
  return shape;
}

void check(const StoredTensors& stored, const Recipe& recipe,
           const std::function<bool(const std::string&)>& passed_by) {
  std::set<std::string> used;
  const auto expect = [&](const StoredPart& part) {
    const Shape* found = stored.shape_of(part.name);
    if (found == nullptr) {
      refuse_tensor(
          fmt::format("tensor {} {} is missing", quoted(part.name), to_string(part.shape)));
    }
    if (*found != part.shape) {
      refuse_tensor(fmt::format("tensor {} is {}, and the config asks for {}", quoted(part.name),
                                to_string(*found), to_string(part.shape)));
    }
    used.insert(stored.name_of(part.name));
  };
  for (const auto& [ours, from] : recipe) {
    for (const StoredPart& part : from.parts) expect(part);
  }
  for (const std::string& name : stored.names()) {
    if (used.contains(name) || passed_by(name)) continue;
    refuse_tensor(
        fmt::format("tensor {} is none that this architecture has: leaving it out would be a "
                    "guess",
                    quoted(name)));
  }
}

DType type_of(const StoredTensors& stored, const std::string& ours, const TensorRecipe& from,
              KeptAs kept) {
  const bool matrix =
      is_plain(from) && ours.ends_with(".weight") && shape_of(from.parts).size() == 2;
  return matrix ? type_of(kept, stored_type(stored, from.parts)) : DType::f32;
}

MadeTensors read(const StoredTensors& stored, const Recipe& recipe, KeptAs kept) {
  MadeTensors made;
  std::map<std::string, Tensor> shared;
  for (const auto& [ours, from] : recipe) {
    if (from.computed) {
      made.tensors[ours] = from.computed();
      continue;
    }
    if (!is_plain(from)) {
      Tensor t = parts_of(stored, from.parts, DType::f32);
      if (!from.shape.empty()) t = t.reshape(from.shape);
      if (from.times != 1.0f) t = t * from.times;
      made.tensors[ours] = from.plus != 0.0f ? t + from.plus : t;
      continue;
    }
    const DType dtype = type_of(stored, ours, from, kept);
    Tensor& one = shared[key_of(from) + fovea::name_of(dtype)];
    if (!one) {
      one = parts_of(stored, from.parts,
                     dtype == DType::f32 ? dtype : stored_type(stored, from.parts));
      if (one.dtype() != dtype) one = narrowed(one, dtype, made.cost);
    }
    made.tensors[ours] = one;
  }
  return made;
}

Tensors taken_apart(const Tensors& ours, const Recipe& recipe) {
  const NoGrad off;
  Tensors theirs;
  for (const auto& [name, from] : recipe) {
    if (from.computed) continue;
    Tensor whole = ours.at(name).detach().to(Device::cpu);
    if (from.plus != 0.0f) whole = whole - from.plus;
    if (from.times != 1.0f) whole = whole / from.times;
    if (!from.shape.empty()) whole = whole.reshape(shape_of(from.parts));
    int64_t at = 0;
    for (const StoredPart& part : from.parts) {
      const Tensor own = whole.slice(0, at, at + rows_of(part));
      at += rows_of(part);
      theirs.emplace(part.name, (part.transposed ? own.transpose(0, 1) : own).contiguous());
    }
  }
  return theirs;
}

}  // namespace fovea::checkpoints
