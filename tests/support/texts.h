#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <mobicuda/error.h>

/// A file's content; empty where there is none.
inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// What the mobicuda::Error says that `action` throws, or "no error".
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const mobicuda::Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
