#include "bench_engine/trace/kernel_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <vector>

namespace mobicuda::bench {
namespace {

constexpr const char* kAnonymous = "(anonymous namespace)";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Without "word::" and "(anonymous namespace)::", wherever they are.
std::string without_namespaces(std::string text) {
  const std::string anonymous = std::string(kAnonymous) + "::";
  for (auto at = text.find(anonymous); at != std::string::npos; at = text.find(anonymous, at)) {
    text.erase(at, anonymous.size());
  }
  for (auto at = text.find("::"); at != std::string::npos; at = text.find("::", at)) {
    auto begin = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    if (begin == at) {  // a member of a template's instance
      at += 2;
      continue;
    }
    text.erase(begin, at + 2 - begin);
    at = begin;
  }
  return text;
}

// Where the characters outside of template arguments are that equal `wanted`.
std::vector<std::size_t> find_outside(const std::string& text, char wanted) {
  std::vector<std::size_t> found;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == wanted) found.push_back(i);
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
  }
  return found;
}

}  // namespace

std::string demangle(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name ? std::string(name.get()) : mangled;
}

std::string short_name(const std::string& demangled) {
  std::string name = without_namespaces(demangled);
  if (const auto brackets = find_outside(name, '('); !brackets.empty()) name.erase(brackets.front());
  if (const auto spaces = find_outside(name, ' '); !spaces.empty()) name.erase(0, spaces.back() + 1);
  return name.empty() ? demangled : name;
}

std::string without_version(const std::string& function) {
  const auto at = function.rfind("_v");
  if (at == std::string::npos || at + 2 == function.size()) return function;
  return function.find_first_not_of("0123456789", at + 2) == std::string::npos ? function.substr(0, at) : function;
}

}  // namespace mobicuda::bench
