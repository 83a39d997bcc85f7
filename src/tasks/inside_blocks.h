#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/inside.h"
#include "tasks/task.h"

// Blocks of a Transformer taken apart: what each would say already, what every head does and is
// worth, and what a row carries. All of it is of chosen outputs: no logits of more are held than of
// a few rows at a time.
namespace fovea::tasks {

// ---- What was typed ----------------------------------------------------------------------------

std::optional<int64_t> typed_number(const std::string& typed);
// A number from 1 … n as an index; throws, naming the option.
size_t typed_index(const char* option, const std::string& typed, size_t n);
// Labels may stand for a word with a space before it: "is", " is", "␣is".
bool is_named(const std::string& label, const std::string& typed);

// ---- What is asked of an output ----------------------------------------------------------------

// One token rather than another where output `output` stands: log p_a − log p_b.
struct Contrast {
  int64_t output = 0;
  int64_t a = 0, b = 0;  // of the V
};
// By what was typed: `output` a number from 1, a label, or any of the V; `against` one of the V.
Contrast contrast_of(const Inside&, const std::string& output, const std::string& against);
std::string title_of(const Inside&, const Contrast&);  // "is rather than are"
// The same model with that one output.
Inside contrasted(const Inside&, const Contrast&);

// log p of tokens of outputs.
struct OutputToken {
  int64_t output = 0, token = 0;
};
// What each of the passes makes of y: the mean log p of the targets, or a contrast in their place.
// States [R,T,…] → [R].
struct Question {
  std::vector<OutputToken> targets;  // none beside a contrast
  std::optional<Contrast> contrast;
};
Question question_of(const Inside&, std::span<const int64_t> outputs);
std::vector<double> answers_to(const Inside&, const Question&, const Tensor& states);

// Log p of all V where the outputs stand, a few at a time: visit(i, log p [V]).
void each_log_p(const Inside&, const Tensor& states, std::span<const int64_t> outputs,
                const std::function<void(size_t, std::span<const float>)>& visit);

// ---- Rows of blocks ----------------------------------------------------------------------------

struct BlockRows {
  std::string name;      // "decoder.0"
  Tensor before, after;  // [1,L,W]
};
// In the order of the pass: an encoder's before a decoder's. x as Inside::x.
std::vector<BlockRows> rows_of_blocks(const Inside&, const Tensor& x);
std::string stack_of(const std::string& block);  // "decoder.0" → "decoder"

// ---- Lens --------------------------------------------------------------------------------------

// What the last norm and the output layer make of the rows after each block of the last stack, the
// embedding before them.
struct LensAsked {
  std::vector<int64_t> outputs;
  int64_t top = 5;
};
struct Lens {
  struct Cell {
    std::vector<int64_t> top;  // likeliest first
    std::vector<double> p;     // of these
    double p_answer = 0;       // of what the last block says
    int64_t rank = 1;          // of it, from 1
  };
  std::vector<std::string> blocks;  // "embedding", "block 1", …
  std::vector<int64_t> outputs;
  std::vector<int64_t> answers;  // by output: the likeliest after the last block
  std::vector<Cell> cells;       // [blocks,outputs]
};
Lens lens_of(const Inside&, const LensAsked&, const ShareDone& = {});

// ---- Heads -------------------------------------------------------------------------------------

// Means over rows of a head's weights: entropy as a share of the most there can be, how far away it
// looks, how much of it goes to the row before, to its own and to the first; and, of rows whose
// token was there before, to that token and to what followed it.
struct HeadPattern {
  double entropy = 0, distance = 0, largest = 0;
  double previous = 0, own = 0, first = 0, duplicate = 0, induction = 0;
};
// Weights rows × columns. `tokens`: of the columns, like tokens having like numbers, where rows are
// the same tokens; empty: the rows are of something else.
HeadPattern pattern_of(std::span<const float> weights, int64_t columns,
                       std::span<const int64_t> tokens = {});
// In a word, or in none. On repeated tokens induction and duplicates show, on a text the rest.
const char* name_of(const HeadPattern& on_text, const HeadPattern& on_repeated);

struct HeadFound {
  std::string layer;
  int64_t head = 0;  // from 0
  double lost = 0;   // y with it less y without it, in nats
  HeadPattern on_text, on_repeated;
  const char* does = "";
};
// Every head, layer by layer in the order of the pass; one pass each.
std::vector<HeadFound> heads_of(const Inside&, const Question&, const ShareDone& = {});
// What they do, nothing being left out; each head's weights on the input go to `also`, one head at
// a time: layer, head, rows × columns, columns.
using HeadVisit =
    std::function<void(const std::string&, int64_t, const std::vector<float>&, int64_t)>;
std::vector<HeadFound> patterns_of(const Inside&, const HeadVisit& also = {});

// ---- Patching ----------------------------------------------------------------------------------

// Passes of the input in which rows that go into one block are those of another text.
struct Patch {
  size_t block = 0;                        // in the order of the pass
  std::vector<std::vector<int64_t>> rows;  // by pass
};
// The states of what goes on from there, [R,T,…].
Tensor patched(const Inside&, const std::vector<BlockRows>& own,
               const std::vector<BlockRows>& other, const Patch&);

// How far y = log p_b − log p_a follows, where a is what the input says and b what the other text
// does: 0 as the input, 1 as the other text. Where both say the same, y is its log odds.
struct Followed {
  struct Stack {
    std::string name;
    std::vector<std::string> blocks, rows;  // labels
    std::vector<float> follows;             // [blocks,rows]
  };
  Contrast contrast;
  double from = 0, to = 0;  // y of the input and of the other text
  std::vector<Stack> stacks;
};
// Throws where the two have not as many tokens. Without a contrast: that of the last output where
// they say something else.
Followed followed(const Inside&, const Inside& other, const std::optional<Contrast>&,
                  const ShareDone& = {});

// What a run that does not open its blocks, or its heads, is refused with.
void expect_blocks(const Inside&, const char* way);
void expect_heads(const Inside&, const char* way);

}  // namespace fovea::tasks
