#include "text/text_table.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>
#include <sstream>

namespace mobicuda::bench {
namespace {

constexpr std::size_t kGap = 2;  // in front of each column
constexpr std::size_t kNoteIndent = 6;
constexpr std::size_t kFirstTextKeeps = 24;
constexpr std::size_t kTextKeeps = 12;
constexpr std::size_t kLongestNumber = 40;

// Whether the byte is the first of a character in UTF-8.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// Where the character with that index begins; the end for the number of all.
std::size_t byte_of(const std::string& text, std::size_t character) {
  std::size_t i = 0;
  for (std::size_t seen = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && seen++ == character) break;
  }
  return i;
}

std::size_t total_width(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * widths.size());
}

// Lines of at most `width` characters where words are no longer.
std::vector<std::string> broken(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (count_characters(line) + 1 + count_characters(word) <= width) {
      line += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// `width` characters, `begin` of them before the ellipsis, of a text that has more.
std::string cut(const std::string& text, std::size_t width, std::size_t begin) {
  const std::size_t length = count_characters(text);
  if (length <= width) return text;
  const std::size_t end = width - 1 - begin;
  return text.substr(0, byte_of(text, begin)) + "\xE2\x80\xA6" + text.substr(byte_of(text, length - end));
}

// Where the ellipsis keeps most of the texts different; of equal places the one nearest to the middle.
std::size_t best_begin(const std::set<std::string>& texts, std::size_t width) {
  const std::size_t middle = width / 2;
  std::size_t best = middle;
  std::size_t most = 0;
  for (std::size_t step = 0; step <= width / 2; ++step) {
    // 0, 1, -1, 2, -2 ... from the middle
    const std::size_t begin = step % 2 == 0 ? middle - step / 2 : middle + (step + 1) / 2;
    if (begin >= width) break;
    std::set<std::string> left;
    for (const std::string& text : texts) left.insert(cut(text, width, begin));
    if (left.size() <= most) continue;
    most = left.size();
    best = begin;
    if (most == texts.size()) break;
  }
  return best;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, std::size_t left_columns)
    : header_(std::move(header)), left_columns_(left_columns) {}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), {}}); }

void TextTable::add_note(std::string text) { rows_.back().notes.push_back(std::move(text)); }

std::vector<std::size_t> TextTable::cell_widths() const {
  std::vector<std::size_t> widths(header_.size());
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], count_characters(row.cells[i]));
  }
  return widths;
}

std::vector<std::size_t> TextTable::fitting_widths() const {
  const std::vector<std::size_t> cells = cell_widths();
  std::vector<std::size_t> widths = cells;
  for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], count_characters(header_[i]));
  if (total_width(widths) <= kTableWidth) return widths;
  for (std::size_t i = left_columns_; i < widths.size(); ++i) {
    widths[i] = std::min(cells[i], kLongestNumber);
    for (const std::string& word : broken(header_[i], 1)) widths[i] = std::max(widths[i], count_characters(word));
  }
  while (total_width(widths) > kTableWidth) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < left_columns_; ++i) {
      if (widths[i] <= (i == 0 ? kFirstTextKeeps : kTextKeeps)) continue;
      if (widest == widths.size() || widths[i] >= widths[widest]) widest = i;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return widths;
}

std::vector<TextTable::Column> TextTable::fitted_columns() const {
  std::vector<Column> columns;
  for (const std::size_t width : fitting_widths()) {
    std::set<std::string> texts;
    for (const Row& row : rows_) texts.insert(row.cells[columns.size()]);
    columns.push_back({width, best_begin(texts, width)});
  }
  return columns;
}

void TextTable::print_cells(std::ostream& out, const std::vector<std::string>& cells,
                            const std::vector<std::size_t>& shown, const std::vector<Column>& columns) const {
  std::string line;
  for (const std::size_t i : shown) {
    const std::string cell = cut(cells[i], columns[i].width, columns[i].before_ellipsis);
    const std::string padding(columns[i].width - count_characters(cell), ' ');
    line += std::string(kGap, ' ') + (i < left_columns_ ? cell + padding : padding + cell);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void TextTable::print_header(std::ostream& out, const std::vector<std::size_t>& shown,
                             const std::vector<Column>& columns) const {
  std::size_t height = 1;
  for (const std::size_t i : shown) height = std::max(height, broken(header_[i], columns[i].width).size());
  for (std::size_t line = 0; line < height; ++line) {
    std::vector<std::string> cells(header_.size());
    for (const std::size_t i : shown) {
      const std::vector<std::string> lines = broken(header_[i], columns[i].width);
      const std::size_t above = height - lines.size();  // the last lines stand side by side
      if (line >= above) cells[i] = lines[line - above];
    }
    print_cells(out, cells, shown, columns);
  }
}

void TextTable::print(std::ostream& out) const {
  const std::vector<Column> columns = fitted_columns();
  std::vector<std::size_t> texts(left_columns_);
  std::iota(texts.begin(), texts.end(), std::size_t{0});
  std::size_t next = left_columns_;
  for (bool first = true; first || next < columns.size(); first = false) {
    std::vector<std::size_t> shown = texts;
    std::size_t total = 0;
    for (const std::size_t i : texts) total += kGap + columns[i].width;
    while (next < columns.size() &&
           (shown.size() == texts.size() || total + kGap + columns[next].width <= kTableWidth)) {
      total += kGap + columns[next].width;
      shown.push_back(next++);
    }
    if (!first) out << '\n';
    print_header(out, shown, columns);
    for (const Row& row : rows_) {
      print_cells(out, row.cells, shown, columns);
      if (!first) continue;
      for (const std::string& note : row.notes) out << paragraph(note, kNoteIndent);
    }
  }
}

std::size_t count_characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_middle(const std::string& text, std::size_t width) { return cut(text, width, width / 2); }

std::string paragraph(const std::string& text, std::size_t indent) {
  std::string lines;
  for (const std::string& line : broken(text, kTableWidth - indent)) lines += std::string(indent, ' ') + line + '\n';
  return lines;
}

}  // namespace mobicuda::bench
