#pragma once

namespace mobicuda::kernels {

/// Whether code for sm_90a is in the library and loaded on the current device. wgmma is in such code only.
bool has_sm90a_code();

}  // namespace mobicuda::kernels
