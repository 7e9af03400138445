#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// No table is wider, wherever it is printed to.
inline constexpr std::size_t kTableWidth = 120;

/// What a table is made of, as text or on a page.
struct TableCells {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::size_t left_columns = 1;
};

/// A table for people: columns as wide as their widest cell, numbers to the right. What would be wider than
/// kTableWidth is made to fit, in this order:
///   1. headers of numbers are broken at blanks;
///   2. texts are cut, those of the widest column first; 24 characters of the first column stay, which names the row,
///      and 12 of the others. An ellipsis stands in the middle, or where it keeps more texts of the column different,
///      with a quarter on each side at least. Numbers are never cut, a text among them to 40 characters;
///   3. columns of numbers that still have no place follow in a second table, beside the same texts.
class TextTable {
 public:
  /// The first `left_columns` columns are text, set to the left.
  TextTable(std::vector<std::string> header, std::size_t left_columns);

  /// As many cells as the header has.
  void add_row(std::vector<std::string> cells);
  /// Text under the last row, indented, on several lines where it is too long for one.
  void add_note(std::string text);
  void print(std::ostream& out) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<std::string> notes;
  };

  // A column as it is printed.
  struct Column {
    std::size_t width = 0;
    std::size_t before_ellipsis = 0;  // of texts that are wider
  };

  std::vector<std::size_t> cell_widths() const;
  std::vector<std::size_t> fitting_widths() const;
  std::vector<Column> fitted_columns() const;
  void print_cells(std::ostream& out, const std::vector<std::string>& cells, const std::vector<std::size_t>& shown,
                   const std::vector<Column>& columns) const;
  void print_header(std::ostream& out, const std::vector<std::size_t>& shown, const std::vector<Column>& columns) const;

  std::vector<std::string> header_;
  std::vector<Row> rows_;
  std::size_t left_columns_;
};

/// Characters of UTF-8 text, each of which counts as one column of a terminal.
std::size_t count_characters(const std::string& text);

/// `text` with an ellipsis for its middle where it has more than `width` characters (at least one).
std::string cut_middle(const std::string& text, std::size_t width);

/// Text on lines of at most kTableWidth characters, broken at blanks, each with `indent` blanks in front and a newline
/// at its end. A longer word is not broken.
std::string paragraph(const std::string& text, std::size_t indent = 0);

}  // namespace mobicuda::bench
