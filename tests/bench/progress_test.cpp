#include "bench_engine/process/progress.h"

#include <sstream>

#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench;

namespace {

std::string told(Progress::Style style) {
  std::ostringstream out;
  Progress progress(out, style);
  progress.set_steps(2);
  progress.step("loading");
  progress.step("classifying 8 pictures");
  progress.within(4, 8);
  progress.clear();
  return out.str();
}

}  // namespace

TEST_CASE("progress is a line for each step where nothing can be redrawn", "[progress]") {
  CHECK(told(Progress::Style::Lines) == "[1/2] loading\n[2/2] classifying 8 pictures\n");
}

TEST_CASE("progress is one line that fills on a terminal, and goes", "[progress]") {
  const std::string text = told(Progress::Style::Bar);
  CHECK_THAT(text, contains("[........................] loading"));
  CHECK_THAT(text, contains("[############............] classifying 8 pictures"));
  CHECK_THAT(text, contains("[##################......] classifying 8 pictures 4/8"));
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.ends_with("\r\x1b[K"));
}

TEST_CASE("silent progress says nothing", "[progress]") {
  CHECK(told(Progress::Style::Silent).empty());
  CHECK(stderr_style(true) == Progress::Style::Silent);
}

TEST_CASE("more steps than announced do no harm", "[progress]") {
  std::ostringstream out;
  Progress progress(out, Progress::Style::Bar);
  progress.step("one");
  progress.within(0, 0);
  progress.step("two");
  progress.within(9, 3);
  progress.clear();
  CHECK_THAT(out.str(), contains("two"));
}
