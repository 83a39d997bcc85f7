#pragma once

#include <filesystem>

#include "tasks/translate.h"

namespace fovea::app {

// Trains with progress on stderr, stopping cleanly on a signal.
tasks::Trained train_showing(const std::filesystem::path& run, const tasks::TranslateConfig&);
void print_trained(const std::filesystem::path& run, const tasks::Trained&);
void print_evaluation(const tasks::Evaluation&);

}  // namespace fovea::app
