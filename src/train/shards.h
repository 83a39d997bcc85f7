#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tensor.h"
#include "team/team.h"
#include "train/gradient_sum.h"

namespace fovea::train {

// Weights, all tensors one after the other in the order of names, dealt to the ranks of a team:
// each owns a run of them, of which alone it has the sum of gradients, the moments and the average.
// Runs end between blocks of kernels::squared_norm(), so that norms add up the same way on any
// number of ranks. Of a team of one, the tensors themselves.
class Shards {
 public:
  Shards(team::Team&, Tensors weights);  // distinct

  const Tensors& own() const { return own_; }  // views of this rank's, by name

  // Leaves in own()'s gradients those of a step's batches, of which this rank gives its parts.
  void sum(std::vector<PartialSum> parts, int64_t batches);
  double squared_norm() const;  // of own()'s gradients, those of all ranks together
  void share();                 // the weights, as their owners have them, to all

  // At the first rank, a tensor like the weight of that name, of pieces like own()'s; elsewhere
  // nothing.
  Tensor whole(const std::string& name, const Tensors& pieces);
  // Pieces like own()'s from tensors like the weights, which the first rank has.
  void deal(const Tensors& whole, const Tensors& pieces);
  // All of the first rank's values to the others.
  void spread(const Tensors& values);

 private:
  struct TensorRange {  // of one tensor's numbers
    std::string name;
    int64_t at, n;
  };
  struct Slice {  // of a rank
    std::vector<TensorRange> runs;
    int64_t numbers = 0;
  };

  void cut();
  int64_t bucket() const;   // numbers of each slice that travel at once
  int64_t buckets() const;  // so many times, the same for all
  std::vector<Slice> in_bucket(int64_t k) const;
  static void pack(const PartialSum&, const Slice&, float* to);
  static team::ConstBytes to_send(const std::vector<PartialSum>&, const Slice&,
                                  std::vector<float>& buffer);
  void sum_bucket(const std::vector<PartialSum>& parts, int64_t batches, int64_t k, Tensor& own);
  void set_gradients(const Tensor& sum, const std::vector<uint8_t>& present);
  std::vector<uint8_t> present_anywhere(const std::vector<PartialSum>&) const;

  team::Team& team_;
  const Tensors weights_;
  std::vector<Slice> slices_;  // by rank
  Tensors own_;
  std::vector<std::vector<float>> out_,
      in_;  // of a bucket, by rank: fresh pages cost as much as sums
};

// Parts that batches [first, end) come to, without their values.
std::vector<PartialSum> shape_of_parts(int64_t first, int64_t end);

}  // namespace fovea::train
