#include "app/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "app/print.h"
#include "report/label.h"

namespace fovea::app {
namespace {

constexpr double kPlainSeconds = 10;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string scores_line(const train::Scores& scores) {
  std::string line;
  for (const auto& [name, value] : scores) {
    line += fmt::format("  {} {:.{}f}", name, value, name == "loss" ? 4 : 2);
  }
  return line;
}

// A terminal that is not dumb.
bool takes_escapes(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace

std::string duration(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

bool stdout_has_colours() {
  const char* none = std::getenv("NO_COLOR");
  return takes_escapes(STDOUT_FILENO) && (none == nullptr || *none == '\0');
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string terminal_text(const report::Picture& picture) {
  const auto ink = stdout_has_colours() ? report::Ink::colour : report::Ink::plain;
  return report::to_text(picture, ink, terminal_width());
}

ProgressLine::ProgressLine() : terminal_(takes_escapes(STDERR_FILENO)) {}
ProgressLine::~ProgressLine() {
  if (open_) note_text("\n");
}

void ProgressLine::put(const std::string& text, bool lasting) {
  const std::string line = report::for_terminal(text);
  if (terminal_) {
    print_note("\r\x1b[K{}{}", line, lasting ? "\n" : "");
    open_ = !lasting;
  } else if (lasting || now() - last_ >= kPlainSeconds) {
    print_note("{}\n", line);
    last_ = now();
  }
}

void ProgressLine::say(const std::string& line) { put(line, true); }

void ProgressLine::show(const train::Progress& p) {
  if (p.validated != nullptr) {
    put(fmt::format("step {:>6}  epoch {:>3}{}{}", p.step, p.epoch, scores_line(*p.validated),
                    p.better ? "  *" : ""),
        true);
    return;
  }
  const std::string left = p.seconds_left < 0 ? "" : ", " + duration(p.seconds_left) + " left";
  put(fmt::format(
          "{:3.0f} %  step {}  epoch {} ({}/{})  loss {:.4f}  rate {:.2g}  {:.0f} {}/s  {}{}",
          100 * p.done, p.step, p.epoch, p.batch, p.batches, p.loss, p.rate, p.units_per_second,
          p.unit, duration(p.seconds), left),
      false);
}

void ProgressLine::show(const std::string& what, double done) {
  put(fmt::format("{:3.0f} %  {}", 100 * done, what), false);
}

}  // namespace fovea::app
