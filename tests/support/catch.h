#pragma once

// Catch2 2.13 (Debian 12) and 3.x (Ubuntu 24.04) under one include.
#ifdef MOBICUDA_CATCH2_V2
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
using Catch::Approx;
#endif

#include <iostream>
#include <string>

/// Ends the test case as skipped: ctest reports a test that prints this line as "Skipped". Call it before
/// any assertion, directly in the test case.
#define MOBICUDA_SKIP(reason)                     \
  do {                                            \
    std::cout << "skipped: " << (reason) << '\n'; \
    return;                                       \
  } while (false)
