#include "bench_engine/terminal/printable_stream.h"

#include <sstream>

#include "support/catch.h"

using mobicuda::bench::PrintableStream;

TEST_CASE("what is printed has no control characters but ends of lines") {
  std::ostringstream shown;
  {
    PrintableStream out(shown);
    out << "\x1b]0;title\x07 of " << 3 << '\n' << "gr\xc3\xbc\xc3\x9f" << '\n';
    CHECK(shown.str() == "\\x1b]0;title\\x07 of 3\ngr\xc3\xbc\xc3\x9f\n");
    out << "half" << std::flush;
    CHECK(shown.str().ends_with("\nhalf"));
    out << "\r\x9b";
  }
  CHECK(shown.str().ends_with("half\\x0d\\x9b"));
}

TEST_CASE("a stream that cannot be written to is one behind it as well") {
  std::ostringstream shown;
  shown.setstate(std::ios::badbit);
  PrintableStream out(shown);
  out << "text" << std::flush;
  CHECK_FALSE(out);
}
