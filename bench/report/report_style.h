#pragma once

namespace mobicuda::bench::report {

/// The style sheet of HTML reports: light and dark as the reader's system is, from the width of a phone on.
extern const char* const kReportStyle;

/// The same for a chart in a file of its own.
extern const char* const kPictureStyle;

}  // namespace mobicuda::bench::report
