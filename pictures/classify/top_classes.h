#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mobicuda/pictures.h>

namespace mobicuda::pictures {

/// The `count` classes of the highest scores, or all, best first; the lower index first among equals, NaN last.
std::vector<ClassScore> top_classes(std::span<const float> scores, std::size_t count);

}  // namespace mobicuda::pictures
