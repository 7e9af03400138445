#include "errors.h"

#include <exception>

#include <mobicuda/error.h>

namespace mobicuda::python {
namespace {

namespace nb = nanobind;

void raise_error(const Error& error) {
  const nb::object made = nb::module_::import_("mobicuda.errors")
                              .attr("_make_error")(to_text(to_string(error.code())), to_text(error.where()),
                                                   to_text(error.message()), to_text(error.hint()));
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

}  // namespace

nb::str to_text(std::string_view bytes) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
}

void raise_type_error(const std::string& message) { throw nb::type_error(message.c_str()); }

void raise_value_error(const std::string& message) { throw nb::value_error(message.c_str()); }

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      try {
        raise_error(error);
      } catch (nb::python_error& failure) {  // e.g. no memory for the exception
        failure.restore();
      }
    }
  });
}

}  // namespace mobicuda::python
