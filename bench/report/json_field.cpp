#include "report/json_field.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "report/report_error.h"

namespace mobicuda::bench::report {

Field Field::operator[](const char* key) const {
  static const Json kNull;
  if (!absent() && !json_->is_object()) fail("an object");
  const auto found = json_->find(key);
  return {found == json_->end() ? kNull : *found, name_ + '.' + key};
}

std::vector<Field> Field::elements() const {
  std::vector<Field> result;
  if (absent()) return result;
  if (!json_->is_array()) fail("an array");
  for (std::size_t i = 0; i < json_->size(); ++i) {
    result.emplace_back((*json_)[i], name_ + '[' + std::to_string(i) + ']');
  }
  return result;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  std::vector<std::pair<std::string, Field>> result;
  if (absent()) return result;
  if (!json_->is_object()) fail("an object");
  for (const auto& [key, value] : json_->items()) result.emplace_back(key, Field(value, name_ + '.' + key));
  return result;
}

std::vector<std::string> Field::texts() const {
  std::vector<std::string> result;
  for (const Field& element : elements()) result.push_back(element.text());
  return result;
}

std::string Field::text() const {
  if (absent()) return {};
  if (!json_->is_string()) fail("a string");
  return json_->get<std::string>();
}

double Field::number(double otherwise) const {
  if (absent()) return otherwise;
  if (!json_->is_number()) fail("a number");
  return json_->get<double>();
}

std::int64_t Field::whole() const {
  if (absent()) return 0;
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() ||
                     json_->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!fits) fail("a whole number");
  return json_->get<std::int64_t>();
}

std::int64_t Field::size() const {
  const std::int64_t value = whole();
  if (value < 0) fail("at least 0");
  return value;
}

std::int64_t Field::batch() const {
  const std::int64_t value = whole();
  if (value < 1) fail("a batch, at least 1");
  return value;
}

std::optional<int> Field::threads() const {
  if (absent()) return std::nullopt;
  const std::int64_t value = whole();
  if (value < 0 || value > std::numeric_limits<int>::max()) fail("a number of threads, at least 0");
  return static_cast<int>(value);
}

bool Field::truth() const {
  if (absent()) return false;
  if (!json_->is_boolean()) fail("true or false");
  return json_->get<bool>();
}

std::string Field::precision() const {
  constexpr std::array<std::string_view, 5> kKnown{"fp32", "fp32_split", "tf32", "fp16", "fp64"};
  const std::string value = text();
  if (std::find(kKnown.begin(), kKnown.end(), value) == kKnown.end()) fail("fp32, fp32_split, tf32, fp16 or fp64");
  return value;
}

void Field::fail(const std::string& expected) const {
  // A container may be as large as the file.
  const std::string got = json_->is_structured() ? "an " + std::string(json_->type_name())
                                                 : json_->dump(-1, ' ', false, Json::error_handler_t::replace);
  throw ReportError(ReportError::Kind::Invalid, name_, "must be " + expected + ", got " + got,
                    "docs/bench_engine.schema.json describes the file");
}

}  // namespace mobicuda::bench::report
