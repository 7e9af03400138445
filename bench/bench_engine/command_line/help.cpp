#include "bench_engine/command_line/help.h"

#include <ostream>
#include <sstream>

namespace mobicuda::bench {
namespace {

constexpr std::size_t kLineWidth = 100;

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string result;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size()) {
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= width;
      result += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    result += word;
  }
  return result;
}

}  // namespace

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  // Not CLI11's own, which differ from version to version. That there may be several is in the type: "[,..]".
  if (option->get_type_size() == 0) return {};
  const std::string type = option->get_type_name();
  std::string text = type.empty() ? "" : " " + type;
  if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
  if (option->get_required()) text += " REQUIRED";
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kLineWidth - get_column_width());
}

std::string HelpFormatter::make_option_usage(const CLI::Option* option) const {
  const std::string name = make_option_name(option, true);
  std::string text;
  for (int i = 0; i < option->get_expected_max(); ++i) {
    if (i > 0) text += ' ';
    text += i < option->get_expected_min() ? name : '[' + name + ']';
  }
  return text;
}

ExitCode tell(const CLI::App& app, const CLI::ParseError& error, std::ostream& out, std::ostream& err) {
  if (error.get_exit_code() == 0) {
    app.exit(error, out, err);
    return kExitOk;
  }
  std::string message = error.what();
  const auto twice = message.find("At Most 1 required but received ");
  if (twice != std::string::npos) message = message.substr(0, twice) + "given more than once";
  err << app.get_name() << ": " << message << "\nRun with --help for more information.\n";
  return kExitUsage;
}

}  // namespace mobicuda::bench
