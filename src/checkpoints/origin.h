#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/architecture.h"
#include "checkpoints/config.h"
#include "checkpoints/generation.h"
#include "checkpoints/tensors.h"

// All of a checkpoint but its weights: what a training that begins with it keeps, and what it is
// given back by. A folder of it has the model's config.json, the files of its tokenizer, and
// tensors.json, the names and shapes of what the weights were.
namespace fovea::checkpoints {

// What is to be made of a model.
struct WantedModel {
  Purpose purpose = Purpose::writes;
  std::vector<std::string> classes = {};  // tells: all of them, in any order
};

class Origin {
 public:
  // Of a model's folder. Where classes are wanted that the model does not tell, its head is a new
  // one. Throws where it is no such model.
  static Origin of(const std::filesystem::path& model, const WantedModel&);
  static Origin of(const std::filesystem::path& model);  // as it is
  static Origin kept_in(const std::filesystem::path& folder);
  // Of a model that was made here, which this architecture has.
  static Origin made(const Config::Json& config, const std::map<std::string, Shape>& listed);

  void keep_in(const std::filesystem::path& folder) const;
  // Where its files are: config.json, those of the tokenizer.
  const std::filesystem::path& folder() const { return folder_; }
  std::vector<std::filesystem::path> files() const;  // but for config.json and the weights
  const Config& config() const { return config_; }
  const std::string& title() const { return architecture_->title; }
  const ModelPlan& plan() const { return plan_; }
  std::vector<std::string> classes() const;
  Generation generation() const;

  // Of a model's folder: its weights by our names, in float32; those of a new head are drawn.
  Tensors weights(uint64_t seed) const;
  // As many, of nothing: a state is copied into them.
  Tensors blank() const;
  // Tables that are computed are not, whatever else is.
  bool is_learned(const std::string& name) const { return !plan_.recipe.at(name).computed; }
  // How our tensor is larger than theirs: so much larger are its steps to be.
  float times(const std::string& name) const { return plan_.recipe.at(name).times; }

  // Weights by their names.
  Tensors theirs(const Tensors& ours) const;

 private:
  Origin(Config config, std::filesystem::path folder);
  void plan_by_list();
  void tie_as_config_says();
  void want(const WantedModel&);
  void add_fresh();
  void check_parts() const;
  bool is_passed_by(const std::string& name) const;

  Config config_;
  std::filesystem::path folder_;
  const Architecture* architecture_;
  std::map<std::string, Shape> listed_;
  std::vector<std::filesystem::path> weight_files_;  // none where it was kept
  std::set<std::string> fresh_;                      // ours, which no file has
  ModelPlan plan_;
};

bool is_of_origin(const std::string& file);  // whether keep_in() may write one of this name

}  // namespace fovea::checkpoints
