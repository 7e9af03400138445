#include "text/text_table.h"

#include <algorithm>
#include <sstream>

#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench;

namespace {

const std::string kEllipsis = "\xE2\x80\xA6";
const std::string kUmlaut = "\xC3\xA4";

std::vector<std::string> lines_of(const TextTable& table) {
  std::ostringstream text;
  table.print(text);
  std::istringstream stream(text.str());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t widest(const std::vector<std::string>& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines) width = std::max(width, count_characters(line));
  return width;
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("a text is cut in the middle, by characters", "[table]") {
  CHECK(cut_middle("features.2", 10) == "features.2");
  CHECK(cut_middle("features.2", 9) == "feat" + kEllipsis + "es.2");
  CHECK(cut_middle("features.2", 2) == "f" + kEllipsis);
  CHECK(cut_middle("features.2", 1) == kEllipsis);
  CHECK(cut_middle(repeated(kUmlaut, 10), 10) == repeated(kUmlaut, 10));
  CHECK(cut_middle(repeated(kUmlaut, 10), 4) == repeated(kUmlaut, 2) + kEllipsis + kUmlaut);
  CHECK(count_characters(kUmlaut + kEllipsis + "a") == 3);
}

TEST_CASE("a table that fits is as wide as its cells, counted in characters", "[table]") {
  TextTable table({"class", "name", "n"}, 2);
  table.add_row({"1", "K" + kUmlaut + "fer", "12"});
  table.add_row({"2", "Maus", "3"});
  CHECK(lines_of(table) ==
        std::vector<std::string>{"  class  name    n", "  1      K" + kUmlaut + "fer  12", "  2      Maus    3"});
  TextTable full({"name", "n"}, 1);
  full.add_row({repeated(kUmlaut, kTableWidth - 5), "1"});
  CHECK(widest(lines_of(full)) == kTableWidth);
  CHECK_THAT(lines_of(full)[1], contains(repeated(kUmlaut, kTableWidth - 5)));
}

TEST_CASE("texts yield to numbers, the widest column first", "[table]") {
  TextTable table({"layer", "kernel", "output", "ms"}, 2);
  const std::string kernel = "inverted_residual/cluster4_k64_n64";
  table.add_row({"features.2/" + repeated("x", 280) + "/last.Add", kernel, "1x24x56x56", "0.0123"});
  table.add_row({"classifier", "gemm/gemv", "1x1000", "123456.7890"});
  const std::vector<std::string> lines = lines_of(table);
  REQUIRE(lines.size() == 3);
  CHECK(widest(lines) == kTableWidth);
  for (const char* part : {"  features.2/xx", "xx/last.Add", "1x24x56x56", "0.0123"}) {
    CHECK_THAT(lines[1], contains(part));
  }
  CHECK_THAT(lines[1], contains(kernel));
  CHECK_THAT(lines[2], contains("  classifier  "));
  CHECK_THAT(lines[2], contains("123456.7890"));
}

TEST_CASE("the first text keeps more characters than the others", "[table]") {
  const std::string name = "cpu fp32, 16 threads at b";
  REQUIRE(name.size() == 25);
  TextTable table({"implementation", "kernel", "a", "b", "c", "d", "e"}, 2);
  const std::string number = "12345678901.25";
  table.add_row({name, repeated("k", 200), number, number, number, number, number});
  const std::vector<std::string> lines = lines_of(table);
  CHECK(widest(lines) == kTableWidth);
  CHECK(lines[1].starts_with("  cpu fp32, 16" + kEllipsis + "hreads at b  kkkkkk" + kEllipsis + "kkkkk  1234"));
}

TEST_CASE("the ellipsis stands where different texts stay different", "[table]") {
  const std::string same(60, 's');
  for (const std::size_t at : {58U, 66U}) {  // what the middle would leave out
    TextTable table({"kernel", "us"}, 1);
    for (const char* number : {"1", "2", "3"}) table.add_row({(same + same).insert(at, number) + "end", number});
    const std::vector<std::string> lines = lines_of(table);
    CHECK(widest(lines) == kTableWidth);
    CHECK_THAT(lines[1], contains(kEllipsis) && contains("end  "));
    CHECK(lines[1].substr(0, kTableWidth - 4) != lines[2].substr(0, kTableWidth - 4));
    CHECK(lines[2].substr(0, kTableWidth - 4) != lines[3].substr(0, kTableWidth - 4));
  }
}

TEST_CASE("a text among numbers has at most 40 characters", "[table]") {
  TextTable table({"implementation", "held back by"}, 1);
  table.add_row({"custom", repeated("a", 130)});
  const std::vector<std::string> lines = lines_of(table);
  CHECK(lines[1] == "  custom          " + repeated("a", 20) + kEllipsis + repeated("a", 19));
}

TEST_CASE("headers of numbers are broken before texts are cut", "[table]") {
  TextTable table({"implementation", "time from host to host", "share"}, 1);
  table.add_row({repeated("n", 100), "1.5", "2"});
  const std::string indent = repeated(" ", 104);
  CHECK(lines_of(table) == std::vector<std::string>{indent + "time", indent + "from", indent + "host", indent + "  to",
                                                    "  implementation" + repeated(" ", 88) + "host  share",
                                                    "  " + repeated("n", 100) + "   1.5      2"});
}

TEST_CASE("columns that have no place follow in a second table", "[table]") {
  std::vector<std::string> header{"class", "name", "pictures"};
  std::vector<std::string> row{"7", repeated("n", 60), "50"};
  for (int i = 0; i < 30; ++i) {
    header.push_back("custom fp16 top-" + std::to_string(i));
    row.push_back("1234" + std::to_string(i));
  }
  TextTable table(header, 2);
  table.add_row(row);
  table.add_note("once");
  const std::vector<std::string> lines = lines_of(table);
  CHECK(widest(lines) <= kTableWidth);
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  for (int i = 0; i < 30; ++i) CHECK_THAT(text, contains(" 1234" + std::to_string(i)));
  CHECK(std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("  7 "); }) == 3);
  CHECK(std::count(lines.begin(), lines.end(), "      once") == 1);
}

TEST_CASE("a paragraph has no line wider than a table", "[table]") {
  CHECK(paragraph("one line", 2) == "  one line\n");
  CHECK(paragraph(repeated(kUmlaut, 60) + ' ' + repeated(kUmlaut, 59)) ==
        repeated(kUmlaut, 60) + ' ' + repeated(kUmlaut, 59) + '\n');
  CHECK(paragraph(repeated("a", 60) + ' ' + repeated("b", 60), 1) ==
        ' ' + repeated("a", 60) + "\n " + repeated("b", 60) + '\n');
}

TEST_CASE("a note stands below its row, on as many lines as it needs", "[table]") {
  TextTable table({"layer", "n"}, 1);
  table.add_row({"a", "1"});
  table.add_note("reason: " + repeated("word ", 40));
  table.add_row({"b", "2"});
  const std::vector<std::string> lines = lines_of(table);
  REQUIRE(lines.size() == 5);
  CHECK(lines[1] == "  a      1");
  CHECK(lines[2].starts_with("      reason: word"));
  CHECK(lines[3].starts_with("      word"));
  CHECK(widest(lines) <= kTableWidth);
  CHECK(lines[4] == "  b      2");
}
