#include "bench_engine/report/html.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace mobicuda::bench {

std::string escaped(const std::string& text) {
  constexpr unsigned char kFirstPrintable = 0x20;
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\n':
      case '\t':
        result += ' ';
        break;
      default:
        if (static_cast<unsigned char>(c) < kFirstPrintable) {
          result += "\xEF\xBF\xBD";
        } else {
          result += c;
        }
    }
  }
  return result;
}

std::string element(const std::string& tag, const std::string& text) {
  return '<' + tag + '>' + escaped(text) + "</" + tag + ">\n";
}

HtmlTable::HtmlTable(const std::vector<std::string>& header, std::size_t left_columns) : left_columns_(left_columns) {
  rows_ = "<thead><tr>";
  add_cells("th", header);
  rows_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::add_row(const std::vector<std::string>& cells, const std::string& row_class) {
  rows_ += row_class.empty() ? "<tr>" : "<tr class=\"" + row_class + "\">";
  add_cells("td", cells);
  rows_ += "</tr>\n";
}

void HtmlTable::add_cells(const char* tag, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    rows_ +=
        std::string("<") + tag + (i < left_columns_ ? " class=\"l\">" : ">") + escaped(cells[i]) + "</" + tag + '>';
  }
}

std::string HtmlTable::str() const {
  return "<div class=\"scroll\" tabindex=\"0\"><table>\n" + rows_ + "</tbody></table></div>\n";
}

std::string compact(double value) {
  struct Unit {
    double size;
    const char* suffix;
  };
  constexpr std::array<Unit, 5> kUnits{{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  // 999.6 has three digits too many to stay below the next unit.
  constexpr double kRoundsUp = 0.9995;
  const char* suffix = "";
  for (const Unit& unit : kUnits) {
    if (std::abs(value) < unit.size * kRoundsUp) continue;
    value /= unit.size;
    suffix = unit.suffix;
    break;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data() + std::string(suffix);
}

}  // namespace mobicuda::bench
