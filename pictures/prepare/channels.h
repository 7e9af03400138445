#pragma once

namespace mobicuda::pictures {

inline constexpr int kChannels = 3;  ///< of a pixel: RGB, a byte each

}  // namespace mobicuda::pictures
