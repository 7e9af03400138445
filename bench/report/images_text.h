#pragma once

#include <iosfwd>

#include "report/document.h"

namespace mobicuda::bench::report {

/// What came of the pictures: accuracy, pictures a second, classes that differ from the reference's, and with
/// `per_class` a table of all classes.
void print_images(std::ostream& out, const ImageReport& images, bool per_class);

/// Accuracy and pictures a second only.
void print_fewer_images(std::ostream& out, const ImageReport& images);

}  // namespace mobicuda::bench::report
