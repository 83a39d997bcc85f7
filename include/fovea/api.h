#pragma once

// Symbols are hidden unless marked: what carries FOVEA_API is the library's surface, and
// the little that one component's library needs of another's.
#define FOVEA_API __attribute__((visibility("default")))
