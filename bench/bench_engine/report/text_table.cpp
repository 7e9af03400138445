#include "bench_engine/report/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

namespace mobicuda::bench {
namespace {

std::string formatted(const char* format, int decimals, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, decimals, value);
  return text.data();
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, std::size_t left_columns) : left_columns_(left_columns) {
  rows_.push_back(std::move(header));
}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void TextTable::print(std::ostream& out) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += "  " + (i < left_columns_ ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

std::string fixed(double value, int decimals) { return formatted("%.*f", decimals, value); }

std::string scientific(double value) { return formatted("%.*e", 1, value); }

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 2) + " %" : std::string("-");
}

std::string megabytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / 1e6, 2) + " MB"; }

}  // namespace mobicuda::bench
