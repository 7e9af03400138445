#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace mobicuda::bench {

/// Passes lines on to another stream, each of them printable(): names in models, plan files and JSON, and paths, may
/// hold what moves a terminal's cursor or sets its title.
class PrintableStream : public std::ostream {  // NOLINT(misc-multiple-inheritance): a stream is several things
 public:
  explicit PrintableStream(std::ostream& target) : std::ostream(nullptr), buffer_(target) { rdbuf(&buffer_); }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::ostream& target) : target_(target) {}
    ~Buffer() override;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

   private:
    int_type overflow(int_type c) override;
    int sync() override;
    /// Whether the line so far, and `end`, could be passed on.
    bool pass_on(const char* end);

    std::ostream& target_;
    std::string line_;  ///< what was not passed on yet
  };

  Buffer buffer_;
};

}  // namespace mobicuda::bench
