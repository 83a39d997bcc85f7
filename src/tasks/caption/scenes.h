#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"

// Images made up on the spot: coloured shapes, a sentence that names them, and where each is.
//   "a red circle above a small blue square and a green cross"
// An upper shape is named before a lower one; the relation is the one along which the first two lie
// further apart. So that a scene has one sentence.
namespace fovea::tasks::captions {

inline constexpr int64_t kSceneSide = 64;

// In pixels; the right and lower edges lie outside.
struct Box {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  bool has(double x, double y) const {
    return x >= static_cast<double>(left) && x < static_cast<double>(right) &&
           y >= static_cast<double>(top) && y < static_cast<double>(bottom);
  }
};

struct SceneObject {
  std::string colour, shape;
  bool small = false;
  Box box;
};

struct Scene {
  image::Image image;
  std::vector<SceneObject> objects;  // as they are named
  std::vector<std::string> words;    // of the sentence
  std::vector<int64_t> names;        // for each word, the object it tells of, or −1
  std::string caption() const;
};

// A function of (seed, i) alone.
Scene draw_scene(uint64_t seed, uint64_t i);

}  // namespace fovea::tasks::captions
