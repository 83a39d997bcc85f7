#pragma once

#include "tokens/traced.h"

namespace fovea::tokens {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
void normalize(Traced&, NormalForm);

}  // namespace fovea::tokens
