#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "image/image.h"
#include "report/picture.h"

// Pictures as JSON that is read back: by the explorer's page, and by a run that goes on.
namespace fovea::report {

nlohmann::ordered_json packed(const Picture&);  // exact, with its "kind"
Picture unpacked(const nlohmann::ordered_json&);

// As "cells", base64 of 32-bit floats; or as "weights", with four places, more than a picture
// shows.
void put_weights(nlohmann::ordered_json& to, const std::vector<float>&, Numbers);
std::vector<float> weights_in(const nlohmann::ordered_json&);  // of either; throws where too many

void put_scale(nlohmann::ordered_json& to, Scale);  // "signed", where it is
Scale scale_in(const nlohmann::ordered_json&);

std::string packed(const image::Image&);  // PNG in base64
image::Image image_in(const std::string&);

}  // namespace fovea::report
