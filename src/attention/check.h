#pragma once

#include "attention/def.h"

// What every plan relies on: defaults filled in, and parameters that fit.
namespace fovea {

const ScoreDef& def_of(const Score&);          // scaled_dot when none is set
const WeightingDef& def_of(const Weighting&);  // softmax when none is set

// The weighting's sink [H]; undefined: none.
Tensor sink_of(const Weighting&);

// The score's factor: the caller's, or the mechanism's own.
float scale_of(const Score&, const Sizes&);

// [L,D] and [B,L,D] as [B,H,L,D].
Tensor with_rank_4(Tensor);
// Throws where they are not tensors of numbers to attend with, of one rank and on one device.
void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v);

// Sizes of q [B,H,Lq,D], k [B,Hk,Lk,D] and v [B,Hk,Lk,Dv]; throws where they contradict each other.
Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v);

// What terms need to know of one another, once they are checked.
MaskContext mask_context(const Mask&, const Sizes&);
// Whether a term is a range of keys for each query.
bool is_range(const MaskTerm&, const MaskContext&);

// Throws Error(call, …) where a width, a parameter's shape or type, a number, a cap, a bias, the
// temperature or the dropout rate does not fit.
void check_attention(const char* call, const Attention&, const Sizes&);

// "… chooses no key; argmax, gumbel and sample do", of a weighting that is not hard.
std::string chooses_none(const std::string& weighting);

// A parameter's or a number's name without the mark of an optional one.
std::string bare_name(const ParameterDef&);
std::string bare_name(const NumberDef&);
bool is_optional(const ParameterDef&);
bool is_optional(const NumberDef&);
// "a whole number of at least 1", "a whole number of at least 0, or inf"
std::string expected_of(const NumberDef&);
// Whether it is one.
bool fits(const NumberDef&, double);

}  // namespace fovea
