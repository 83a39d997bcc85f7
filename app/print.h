#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

// All that the program prints goes through here.
namespace fovea::app {

// To be called before any file is opened: a descriptor 0, 1 or 2 that is closed would be given to
// the next file, which then gets what is printed; and neither a reader that left nor a limit on the
// size of files ends the program without a word.
void prepare_printing();

// Results, to standard output. Who cannot be given them is told: what cannot be written throws.
struct CannotPrint {
  int error;  // errno
};
void print_text(std::string_view);
void flush_printed();
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

// Words for whoever watches, to standard error: progress, notes, complaints. Where they cannot be
// written (a terminal that was closed, a disk that is full) they stay unsaid: no work is lost for
// want of a reader.
void note_text(std::string_view) noexcept;
template <class... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  note_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea::app
