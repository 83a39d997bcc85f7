#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/convolution.h"

// Images to a grid of places: convolutions of stride 2, the first of them 5 wide, the others 3.
namespace fovea::models {

struct GridShape {
  int64_t height = 0, width = 0, channels = 0;  // of images
  int64_t stride = 4;                           // pixels of a place's side
};
// Throws, naming the caller, the field and its range.
void check_grid(const char* call, const GridShape&);
// Throws unless images are [B,channels,height,width].
void expect_images(const char* call, const GridShape&, const Tensor& images);

// As many as halve the image until a place has the stride; `inside` channels between them.
std::vector<nn::NormedConv> halvings(nn::Weights&, const std::string& name, const GridShape&,
                                     int64_t inside, int64_t out);

// Pixels along a side that a place is computed from, with so many convolutions of 3 after these.
int64_t reach_of_grid(int64_t stride, int64_t more);

// Values from 0 to 1 as a network takes them.
Tensor centred(const Tensor& images);

}  // namespace fovea::models
