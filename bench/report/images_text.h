#pragma once

#include <cstddef>
#include <iosfwd>

#include "report/document.h"

namespace mobicuda::bench::report {

/// Of classes that were taken for one another, in text and on the page.
inline constexpr std::size_t kPairsShown = 20;

/// What came of the pictures: accuracy, pictures a second, classes that differ from the reference's, and with
/// `per_class` a table of all classes.
void print_images(std::ostream& out, const ImageReport& images, bool per_class);

/// Accuracy and pictures a second only.
void print_fewer_images(std::ostream& out, const ImageReport& images);

}  // namespace mobicuda::bench::report
