// The tables in the kernels' pages are those that the engine goes by. With MOBICUDA_WRITE_RULES=1 they are written
// anew.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "choose/kernels.h"
#include "support/catch.h"
#include "support/folders.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

std::string markdown(const RuleText& rule) {
  std::string text = "| if | take | because |\n|---|---|---|\n";
  for (const RuleText::Line& line : rule.lines) {
    const std::string condition = line.condition == kAlways ? line.condition : "`" + line.condition + "`";
    text += "| " + condition + " | " + line.variants + " | " + line.why + " |\n";
  }
  // A bar would end the cell.
  for (std::size_t at = text.find("||"); at != std::string::npos; at = text.find("||", at + 4)) {
    text.replace(at, 2, "\\|\\|");
  }
  return text;
}

// The page with the table between its marks; unchanged where it has no such marks.
std::string with_table(const std::string& page, const RuleText& rule) {
  const std::string begin = "<!-- rule: " + rule.title + " -->\n";
  const std::string end = "<!-- end of rule -->";
  const std::size_t from = page.find(begin);
  if (from == std::string::npos) return page;
  const std::size_t to = page.find(end, from);
  if (to == std::string::npos) return page;
  return page.substr(0, from + begin.size()) + markdown(rule) + page.substr(to);
}

TEST_CASE("the pages' tables of rules are those of the code") {
  for_each_kernel([](const auto& kernel) {
    using Params = typename std::remove_cvref_t<decltype(kernel)>::Params;
    const std::string name(kernel.name);
    const std::filesystem::path file = test::source_folder() / "kernels" / name / "README.md";
    const std::string page = ::text_of(file);
    std::string expected = page;
    for (const RuleText& rule : rule_texts(Params{})) {
      INFO(file << " has no marks for the rule of " << rule.title);
      const std::size_t begin = page.find("<!-- rule: " + rule.title + " -->\n");
      REQUIRE((begin != std::string::npos));
      REQUIRE((page.find("<!-- end of rule -->", begin) != std::string::npos));
      expected = with_table(expected, rule);
    }
    if (std::getenv("MOBICUDA_WRITE_RULES") != nullptr) std::ofstream(file) << expected;
    INFO(file << " differs from engine/choose/rules/" << name
              << ".cpp: MOBICUDA_WRITE_RULES=1 with this test writes its tables anew");
    CHECK((page == expected));
  });
}

TEST_CASE("a condition is printed as the source has it, without the shape's name") {
  CHECK(condition_text("s.n <= 16 && s.waves(256, 16) >= 2") == "n <= 16 && waves(256, 16) >= 2");
  CHECK(condition_text("!s.half && images.n > s.n") == "!half && images.n > n");
  CHECK(condition_text("") == "always");
}

struct Size {
  int n;
};
enum class Letter { A, B, C };
std::string_view name(Letter letter) { return letter == Letter::A ? "a" : letter == Letter::B ? "b" : "c"; }

constexpr Row<Size, Letter> kRows[] = {
    {MOBICUDA_WHEN(s.n > 10), {Letter::A, Letter::B}, "many"},
    {MOBICUDA_WHEN(s.n > 5), {}, "some"},
    {MOBICUDA_ALWAYS, {Letter::C}, "few"},
};

TEST_CASE("the rows that hold are taken in their order") {
  Preferences<Letter> found;
  append(kRows, Size{11}, found);
  REQUIRE(found.size() == 3);
  CHECK((found[0].variant == Letter::A && found[0].why == "many"));
  CHECK((found[1].variant == Letter::B && found[1].why == "many"));
  CHECK((found[2].variant == Letter::C && found[2].why == "few"));
  found.clear();
  append(kRows, Size{5}, found);
  CHECK(found.size() == 1);
}

TEST_CASE("the first row that holds tells why, where one of its variants runs the layer") {
  const auto all = [](Letter) { return true; };
  const auto none = [](Letter) { return false; };
  CHECK(first_why(kRows, Size{11}, all) == "many");
  CHECK(first_why(kRows, Size{11}, none) == "some");
  CHECK(first_why(kRows, Size{5}, all) == "few");
  CHECK(first_why(kRows, Size{5}, none).empty());
}

TEST_CASE("rows as text") {
  const RuleText text = text_of("letters", kRows);
  REQUIRE(text.lines.size() == 3);
  CHECK(text.lines[0].condition == "n > 10");
  CHECK(text.lines[0].variants == "a, b");
  CHECK(text.lines[1].variants.empty());
  CHECK(text.lines[2].condition == "always");
}

}  // namespace
}  // namespace mobicuda
