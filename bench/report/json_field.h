#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mobicuda::bench::report {

/// A place in a document that knows its name, for errors: they are ReportError. Absent members and null
/// read as nothing, 0 or empty.
class Field {
 public:
  // Not ordered_json: it copies as it grows, which takes as much stack as a hostile file is deep.
  using Json = nlohmann::json;

  Field(const Json& json, std::string name) : json_(&json), name_(std::move(name)) {}

  bool absent() const { return json_->is_null(); }
  Field operator[](const char* key) const;                     ///< of an object
  std::vector<Field> elements() const;                         ///< of an array
  std::vector<std::pair<std::string, Field>> members() const;  ///< of an object
  std::vector<std::string> texts() const;
  std::string text() const;
  double number(double otherwise = 0) const;
  std::int64_t whole() const;
  std::int64_t size() const;           ///< a count or a size, at least 0
  std::int64_t batch() const;          ///< at least 1
  std::optional<int> threads() const;  ///< of the CPU, where several numbers of them were compared; 0: all cores
  bool truth() const;
  std::string precision() const;  ///< "fp32", "fp32_split", "tf32", "fp16" or "fp64"
  const Json& json() const { return *json_; }

  [[noreturn]] void fail(const std::string& expected) const;

 private:
  const Json* json_;
  std::string name_;
};

}  // namespace mobicuda::bench::report
