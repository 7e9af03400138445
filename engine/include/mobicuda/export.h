#pragma once

/// Marks what the shared library exports; everything else has hidden visibility.
#if defined(__GNUC__)
#define MOBICUDA_API __attribute__((visibility("default")))
#else
#define MOBICUDA_API
#endif
