#pragma once

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mobicuda::zoo {

/// Lets malloc() keep what is freed, for programs that make networks: their weights come and go by the hundred
/// megabytes, and each page that went back to the system in between would be zeroed and mapped anew.
inline void keep_pages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
#endif
}

}  // namespace mobicuda::zoo
