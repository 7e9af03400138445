#pragma once

#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

namespace mobicuda::python {

/// Text of the library as a str: names in a model file may be any bytes, which become \xNN where they are no UTF-8.
nanobind::str to_text(std::string_view bytes);

/// Raises Python's own exceptions, for what is wrong with an object rather than with its value.
[[noreturn]] void raise_type_error(const std::string& message);
[[noreturn]] void raise_value_error(const std::string& message);

/// Makes every mobicuda::Error the class of mobicuda.errors for its code.
void translate_errors();

}  // namespace mobicuda::python
