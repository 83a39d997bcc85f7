#pragma once

#include <string>

#include "fovea/loss.h"
#include "fovea/search.h"
#include "tasks/fields.h"

// The fields of what writes word after word, for every task that does.
namespace fovea::tasks {

// `dropped`: of what dropout is; `rows`: what goes through a pass, in the plural.
void visit_writer_loss(Fields&, models::LossConfig&, const std::string& dropped,
                       const std::string& rows);

void visit_search(Fields&, models::DecodeConfig&);
void visit_n_best(Fields&, models::DecodeConfig&);
void visit_cache(Fields&, DType&);

}  // namespace fovea::tasks
