#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/explain.h"
#include "fovea/faithful.h"
#include "fovea/layers.h"
#include "fovea/tensor.h"
#include "fovea/transformer.h"
#include "image/image.h"
#include "report/seen_image.h"

// What a run answers to whoever looks inside. A task fills in what its model has; what it leaves
// out is refused by name.
namespace fovea::tasks {

// One layer that looks: who looked at whom, head by head. Weights are computed when they are asked
// for, of the heads and rows that are.
struct LayerSeen {
  std::string name;  // "look", "decoder.1.cross"
  std::vector<std::string> rows, columns;
  int64_t heads = 1;
  std::function<Tensor(const Select&)> weights;  // [H′,rows′,columns]
};
// Of weights [H,rows,columns] that are there already.
LayerSeen layer_of_weights(const std::string& name, const Tensor& weights,
                           const std::vector<std::string>& rows,
                           const std::vector<std::string>& columns);

// As people say it, counted from 1 as heads are: "decoder layer 2, cross-attention". A model with a
// single look has "attention".
std::string title_of(const std::string& layer);
// Their places in the order in which the data pass them: encoder before decoder, first to last, a
// layer's look at itself before its look elsewhere.
std::vector<size_t> natural_order(const std::vector<LayerSeen>&);

// Random tokens, n of them twice: what comes after n of them can be told by looking back.
struct Repeated {
  int64_t n = 32, rows = 4;
  uint64_t seed = 1;
};

// The run's model on one input. Letters: S inputs, E their width, T outputs, R rows at once.
struct Inside {
  std::string title;                         // what came of the input
  std::vector<std::string> inputs, outputs;  // their labels; a picture's inputs are its places
  std::vector<size_t> lines;  // where inputs are words of a text: how many each line has
  size_t shown = 0;           // of outputs that stand side by side, as classes do: the one it said

  Tensor x, blank;                 // [S,E], [E] says nothing; or a picture [C,Y,X] and its blank []
  explain::Outputs log_odds;       // of the outputs, [R,…] → [R,T]
  explain::OneEach log_odds_each;  // the same, an output a row, where that is less work
  int64_t choices = 0;             // what each output can be, where that is many: V
  // Layers that look, the one to show first; those of outputs × inputs come before others.
  std::function<std::vector<LayerSeen>()> attention;
  std::function<Tensor()> rollout;  // [T,S], or [1,S] where outputs stand side by side
  explain::LookAt look;             // open to an intervention
  explain::Outputs held;            // the same, the looks' weights held as they are
  // What outputs are said of, a row each, [R,…] → [R,T,…] ([R,1,…] where they stand side by side);
  // the logits of such rows, [n,…] → [n,V]; how one of the V is shown, and which each output is.
  std::function<Tensor(const Tensor& rows, const models::TransformerPass&)> states;
  std::function<Tensor(const Tensor& states)> said;
  std::function<std::string(int64_t)> named;
  std::vector<int64_t> targets;  // [T]; none where outputs stand side by side
  // Which hooks of a pass are followed: none, those of heads, those of blocks too.
  enum class Opens : uint8_t { outputs, heads, blocks };
  Opens opens = Opens::outputs;
  // Runs the model on random tokens that come twice, and gives these: i64 [rows,2n].
  std::function<Tensor(const Repeated&, const models::TransformerPass&)> on_repeated;
  // The maps of the last convolution, [R,…] → [R,C′,rows,columns], and the outputs made of maps.
  struct Convolution {
    explain::Outputs maps, log_odds;
  };
  std::optional<Convolution> convolution;

  // Of a picture: as it is shown, the grid whose places are its inputs, and which outputs name
  // something whose place is known.
  struct Boxed {
    size_t output = 0;
    report::SeenImage::Box box;
  };
  image::Image image;
  explain::Grid grid;
  std::vector<Boxed> boxed;

  bool side_by_side = false;  // outputs are alternatives, as classes are: one is explained
  bool picture() const { return x.rank() == 3; }
};

// What is changed and left out input by input: vectors as they are, and of a picture the pixels of
// each place, [S,E].
struct Inputs {
  Tensor x, blank;
  explain::Outputs log_odds, held;
  explain::OneEach each;
};
Inputs inputs_of(const Inside&);

// Makes the input a picture, values from 0 to 1, over a grid: its x counts from the grey that is
// the mean of all pixels, so that 0 says nothing. Gives that grey.
float set_picture(Inside&, image::Image, const explain::Grid&);

// log p/(1 − p) of each target, p = softmax(logits): logits [T,R,V], of which each row has the same
// targets → [R,T]. Its gradient is that of log p over 1 − p, and stays where p is near 1.
Tensor log_odds_of(const Tensor& logits, const std::vector<int64_t>& targets);
// Of all classes, logits [R,V] → [R,V].
Tensor log_odds_of_classes(const Tensor& logits);
// The outputs are classes: the likeliest is said, with its probability.
void say_class(Inside&);
// The mean of a table's vectors: [V,E] → [E].
Tensor mean_vector(const Tensor& table);

// Throws where the model says nothing, by what wants that.
void expect_outputs(const Inside&, const std::string& who);

// Where output t is said, and which of the V it is.
int64_t place_of(const Inside&, int64_t output);
int64_t target_of(const Inside&, int64_t output);

// A pass on the input, for whoever hooks into it.
using RunPass = std::function<void(const models::TransformerPass&)>;
// The weights of the layer of that name; blocks after it are left out. [H′,Lq′,Lk]
Tensor weights_in(const RunPass&, const std::string& layer, const Select&);

// Keeps the mean over the heads of every layer that passes, by name in order.
class HeadsSeen {
 public:
  nn::HeadsHook hook();
  Tensor named(const std::string& name) const;  // [1,Lq,Lk]; throws where none passed

 private:
  std::vector<std::pair<std::string, Tensor>> seen_;
};

// Heads of layers that are switched off: their weights are 0.
struct HeadOff {
  std::string layer;
  int64_t head = 0;  // from 0
};
nn::HeadsHook without(const std::vector<HeadOff>&);

// One query and one key of a head whose score is a dot product, Σ_d scale·q_d·k_d.
struct QueryAndKey {
  std::vector<float> query, key;  // [D]
  double scale = 1, weight = 0;
  bool whole = true;  // the sum is the score: no bias of positions is added, and no cap levels it
};
struct WeightPlace {
  std::string layer;
  int64_t head = 0, row = 0, column = 0;  // from 0
};
QueryAndKey query_and_key(const Inside&,
                          const WeightPlace&);  // throws where the score is no dot product

// An intervention on the layers whose names end so, their heads being rows of it. What was used
// goes to `kept`, [B·H,Lq,Lk] a layer, where that is not null.
nn::HeadsHook on_heads(const models::Intervention&, const std::string& ending,
                       std::vector<Tensor>* kept);

}  // namespace fovea::tasks
