#pragma once

#include "explorer/answers.h"
#include "image/image_file.h"
#include "tasks/input.h"

// What a request asks about. Nothing that it says becomes a path.
namespace fovea::explorer {

inline constexpr size_t kMostText = size_t{16} << 10;  // bytes
inline constexpr image::Limits kPhotos{
    .side = 16384, .pixels = int64_t{24} << 20, .bytes = int64_t{12} << 20};

// Of a file's name, for messages and titles: what stands behind the last slash, without odd
// characters.
std::string plain_name(const std::string&);

// {"input"}: a text, or the name of one of the run's own examples, as the task takes. {"name",
// "file"}: an image, PNG or JPEG in base64; the name is for people.
tasks::Input asked_about(const tasks::Task&, const Json&);

// Of {"settings"}, the fields that there are; none may name a file.
void take_settings(const Json&, tasks::Settings&);

}  // namespace fovea::explorer
