#pragma once

// Symbols are hidden unless marked: what carries FOVEA_API is the library's surface.
#define FOVEA_API __attribute__((visibility("default")))
