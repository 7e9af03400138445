#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mobicuda::bench::report {

/// `text` for the inside of an element or a quoted attribute. What no document may hold becomes U+FFFD.
std::string escaped(const std::string& text);

/// <tag>escaped text</tag>
std::string element(const std::string& tag, const std::string& text);

/// "1 case", "2 cases".
std::string counted(std::size_t count, const std::string& what);

/// A table that scrolls by itself where the page is narrow. Cells are text, escaped here; long names may break after
/// + / and _.
class HtmlTable {
 public:
  /// The first `left_columns` columns are text, the others numbers.
  HtmlTable(const std::vector<std::string>& header, std::size_t left_columns);

  /// `row_class` is a class of the style sheet, or empty. `whole_name` is what the first cell is short for.
  void add_row(const std::vector<std::string>& cells, const std::string& row_class = {},
               const std::string& whole_name = {});
  /// `table_class` as well: "wide" is for many columns.
  std::string str(const std::string& table_class = {}) const;

 private:
  void add_cells(const char* tag, const std::vector<std::string>& cells, const std::string& first_title = {});

  std::string rows_;
  std::size_t left_columns_;
};

/// 1234567 -> "1.23M", 0.00012 -> "0.00012": three digits.
std::string compact(double value);

/// 1234567, "B/s" -> "1.23 MB/s"
std::string compact(double value, const std::string& unit);

}  // namespace mobicuda::bench::report
