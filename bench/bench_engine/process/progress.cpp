#include "bench_engine/process/progress.h"

#include <unistd.h>

#include <algorithm>
#include <ostream>

namespace mobicuda::bench {
namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::size_t kTextWidth = 48;  // with the bar within 80 columns

}  // namespace

void Progress::step(const std::string& what) {
  ++begun_;
  steps_ = std::max(steps_, begun_);
  what_ = what;
  range_.emplace(what, ranges_);
  if (style_ == Style::Lines) {
    out_ << '[' << begun_ << '/' << steps_ << "] " << what << '\n' << std::flush;
  } else if (style_ == Style::Bar) {
    draw(0, {});
  }
}

void Progress::within(std::size_t done, std::size_t all) {
  if (style_ != Style::Bar || all == 0) return;
  draw(static_cast<double>(done) / static_cast<double>(all), " " + std::to_string(done) + "/" + std::to_string(all));
}

void Progress::draw(double part, const std::string& detail) {
  const double done = (static_cast<double>(begun_) - 1 + part) / static_cast<double>(steps_);
  const auto filled = std::min(kBarWidth, static_cast<std::size_t>(done * static_cast<double>(kBarWidth)));
  out_ << "\r\x1b[K[" << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] "
       << (what_ + detail).substr(0, kTextWidth) << std::flush;
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

Progress::Style stderr_style(bool quiet) {
  if (quiet) return Progress::Style::Silent;
  return isatty(STDERR_FILENO) != 0 ? Progress::Style::Bar : Progress::Style::Lines;
}

}  // namespace mobicuda::bench
