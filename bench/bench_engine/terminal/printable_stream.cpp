#include "bench_engine/terminal/printable_stream.h"

#include <mobicuda/error.h>

namespace mobicuda::bench {

PrintableStream::Buffer::~Buffer() { pass_on(""); }

PrintableStream::Buffer::int_type PrintableStream::Buffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  if (traits_type::to_char_type(c) == '\n') return pass_on("\n") ? c : traits_type::eof();
  line_ += traits_type::to_char_type(c);
  return c;
}

int PrintableStream::Buffer::sync() {
  const bool passed = pass_on("");
  return passed && target_.flush() ? 0 : -1;
}

bool PrintableStream::Buffer::pass_on(const char* end) {
  target_ << printable(line_) << end;
  line_.clear();
  return static_cast<bool>(target_);
}

}  // namespace mobicuda::bench
