#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// A table for people: columns as wide as their widest cell, numbers to the right.
class TextTable {
 public:
  /// The first `left_columns` columns are text, set to the left.
  TextTable(std::vector<std::string> header, std::size_t left_columns);

  /// As many cells as the header has.
  void add_row(std::vector<std::string> cells);
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_columns_;
};

std::string fixed(double value, int decimals);   ///< "12.346"; "inf", "nan"
std::string scientific(double value);            ///< "1.2e-05"
std::string percent(double part, double whole);  ///< "86.40 %"; "-" when whole is 0
std::string megabytes(std::int64_t bytes);       ///< "13.97 MB" (10^6 bytes)

}  // namespace mobicuda::bench
