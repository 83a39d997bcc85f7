#pragma once

#include <map>
#include <string>
#include <vector>

#include "ranks/cut.h"
#include "tensor/tree_sum.h"

// Sums over the pairs of chunks of a sequence, of which every rank holds a run: by a tree over all
// pairs, so that their bits do not depend on how many ranks there are.
namespace fovea {

// The tensors of a term, by name.
using Shapes = std::map<std::string, Shape>;

Tensors zeros_of(const Shapes&);

// What the sum over all pairs is: at rank `to`, and nothing elsewhere. Every term has all of the
// names. `mine` has those of this rank's pairs.
Tensors total_at(team::Team&, int to, const SequenceCut&, const Shapes&, TreeSum mine);
Tensors total_everywhere(team::Team&, const SequenceCut&, const Shapes&, TreeSum mine);

}  // namespace fovea
