// A precompiled header is that of a source.
#include "support/shared_headers.h"  // IWYU pragma: keep
