#pragma once

#include <nanobind/nanobind.h>

namespace mobicuda::python {

void bind_options(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_pictures(nanobind::module_& module);  ///< only where libmobicuda_pictures is built

}  // namespace mobicuda::python
