// mobicuda._native: what the Python package is made on top of. Its functions take what mobicuda/*.py have checked.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mobicuda/onnx_import.h>

#include "bindings.h"
#include "devices.h"
#include "errors.h"

namespace nb = nanobind;

namespace mobicuda::python {
namespace {

/// (name, compute capability, bytes) of each GPU, and why there are none.
nb::tuple list_cuda_devices() {
  CudaDevices found;
  {
    const nb::gil_scoped_release no_gil;
    found = cuda_devices();
  }
  nb::list devices;
  for (const CudaDevice& device : found.devices) {
    devices.append(
        nb::make_tuple(to_text(device.name), nb::make_tuple(device.major, device.minor), device.memory_bytes));
  }
  return nb::make_tuple(devices, found.why_none);
}

/// (name, first opset, last opset) of each operator.
nb::list list_operators() {
  nb::list list;
  for (const onnx_import::OperatorSupport& known : onnx_import::supported_operators()) {
    list.append(nb::make_tuple(known.name, known.first_opset, known.last_opset));
  }
  return list;
}

}  // namespace
}  // namespace mobicuda::python

NB_MODULE(_native, module) {
  using namespace mobicuda::python;
  nb::set_leak_warnings(false);  // a session in a global variable at the interpreter's end is no fault
  module.attr("version") = MOBICUDA_VERSION;
  module.attr("has_cuda") = MOBICUDA_HAS_CUDA != 0;
  module.attr("has_pictures") = MOBICUDA_HAS_PICTURES != 0;
  translate_errors();
  bind_options(module);
  bind_engine(module);
  bind_session(module);
#if MOBICUDA_HAS_PICTURES
  bind_pictures(module);
#endif
  module.def("cuda_devices", &list_cuda_devices);
  module.def("operators", &list_operators);
}
