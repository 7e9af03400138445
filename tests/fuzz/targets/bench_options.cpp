#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "bench_engine/command_line/parse_command_line.h"
#include "bench_engine/model/exit_codes.h"
#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

bool run(Bytes input) {
  static const std::string model = scratch_file("m.onnx", {}).string();
  std::vector<std::string> arguments{"bench_engine", "--model", model};
  std::istringstream text(std::string(input.begin(), input.end()));
  for (std::string line; std::getline(text, line);) arguments.push_back(line.substr(0, line.find('\0')));
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  try {
    const auto parsed = bench::parse_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
    if (!parsed.exit_code) return true;
    if (*parsed.exit_code != bench::kExitUsage && *parsed.exit_code != bench::kExitOk) fail("an exit code of its own");
    if (*parsed.exit_code == bench::kExitUsage && err.str().empty()) fail("a mistake without a word");
  } catch (const std::exception& error) {
    fail(std::string("an exception: ") + error.what());
  }
  return false;
}

}  // namespace

Target bench_options() { return {run}; }

}  // namespace mobicuda::fuzz
