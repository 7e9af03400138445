#include "bench_engine/command_line/sweep.h"

#include <charconv>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

constexpr std::size_t kMaxValues = 1000;  // a range mistyped as 1:100000000 should not be tried

void require_few(const std::vector<std::int64_t>& values, const std::string& option) {
  if (values.size() > kMaxValues) {
    throw UsageError(option + ": more than " + std::to_string(kMaxValues) + " values; start:end:*2 doubles");
  }
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::int64_t parse_number(const std::string& text, const std::string& option, std::int64_t minimum) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::result_out_of_range) throw UsageError(option + ": " + text + " is too large");
  if (error != std::errc() || end != last) throw UsageError(option + ": '" + text + "' is not a number");
  if (value < minimum) throw UsageError(option + ": must be at least " + std::to_string(minimum) + ", got " + text);
  return value;
}

std::vector<std::int64_t> parse_range(const std::string& text, const std::string& option, std::int64_t minimum) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 3) throw UsageError(option + ": '" + text + "' is not start:end:step or start:end:*factor");
  const std::int64_t start = parse_number(parts[0], option, minimum);
  const std::int64_t end = parts.size() > 1 ? parse_number(parts[1], option, minimum) : start;
  const bool multiply = parts.size() > 2 && parts[2].starts_with('*');
  std::int64_t step = 1;
  if (multiply) {
    step = parse_number(parts[2].substr(1), option + ", factor", 2);
    if (start == 0) throw UsageError(option + ": '" + text + "' multiplies 0");
  } else if (parts.size() > 2) {
    step = parse_number(parts[2], option + ", step", 1);
  }
  if (end < start) throw UsageError(option + ": '" + text + "' ends before it starts");
  std::vector<std::int64_t> values;
  bool overflow = false;
  for (std::int64_t value = start; !overflow && value <= end;) {
    values.push_back(value);
    require_few(values, option);
    overflow = multiply ? __builtin_mul_overflow(value, step, &value) : __builtin_add_overflow(value, step, &value);
  }
  return values;
}

std::vector<std::int64_t> parse_ranges(const std::vector<std::string>& texts, const std::string& option,
                                       std::int64_t minimum) {
  std::vector<std::int64_t> values;
  for (const std::string& text : texts) {
    const std::vector<std::int64_t> range = parse_range(text, option, minimum);
    values.insert(values.end(), range.begin(), range.end());
    require_few(values, option);
  }
  return values;
}

}  // namespace mobicuda::bench
