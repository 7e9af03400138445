#include "report/html.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace mobicuda::bench::report {

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

namespace {

// Escaped; long names may break between their parts.
std::string breakable(const std::string& text) {
  constexpr std::size_t kLong = 16;
  std::string safe = escaped(text);
  if (text.size() < kLong) return safe;
  std::string result;
  for (const char c : safe) {
    result += c;
    if (c == '+' || c == '/' || c == '_') result += "<wbr/>";
  }
  return result;
}

}  // namespace

std::string element(const std::string& tag, const std::string& text) {
  return '<' + tag + '>' + escaped(text) + "</" + tag + ">\n";
}

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

HtmlTable::HtmlTable(const std::vector<std::string>& header, std::size_t left_columns) : left_columns_(left_columns) {
  rows_ = "<thead><tr>";
  add_cells("th", header);
  rows_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::add_row(const std::vector<std::string>& cells, const std::string& row_class,
                        const std::string& whole_name) {
  rows_ += row_class.empty() ? "<tr>" : "<tr class=\"" + row_class + "\">";
  add_cells("td", cells, whole_name == cells.front() ? std::string() : whole_name);
  rows_ += "</tr>\n";
}

void HtmlTable::add_cells(const char* tag, const std::vector<std::string>& cells, const std::string& first_title) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool left = i < left_columns_;
    rows_ += std::string("<") + tag + (left ? " class=\"l\"" : "");
    if (i == 0 && !first_title.empty()) rows_ += " title=\"" + escaped(first_title) + '"';
    rows_ += '>' + (left ? breakable(cells[i]) : escaped(cells[i])) + "</" + tag + '>';
  }
}

std::string HtmlTable::str(const std::string& table_class) const {
  return "<div class=\"scroll\" tabindex=\"0\"><table" +
         (table_class.empty() ? ">\n" : " class=\"" + table_class + "\">\n") + rows_ + "</tbody></table></div>\n";
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

std::string compact(double value, const std::string& unit) {
  const std::string text = compact(value);
  const auto digits = text.find_first_of("kMGTP");
  return digits == std::string::npos ? text + ' ' + unit : text.substr(0, digits) + ' ' + text.substr(digits) + unit;
}

}  // namespace mobicuda::bench::report
