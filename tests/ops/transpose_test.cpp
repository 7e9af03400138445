// Transpose: where the layout of what it reads does not matter.
#include <cstdint>
#include <vector>

#include "ops/op_runs.h"
#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda::test {
namespace {

TEST_CASE("Transpose of one channel and of one pixel on every engine equals the oracle", "[engines]") {
  for (const std::vector<std::int64_t>& permutation :
       {std::vector<std::int64_t>{0, 3, 1, 2}, {0, 2, 3, 1}, {0, 3, 2, 1}, {0, 2, 1, 3}}) {
    CAPTURE(permutation);
    TestNetwork one_channel(Shape{1, 3, 6, 5});
    one_channel.conv(1, 1);
    one_channel.add(Transpose{permutation}, {one_channel.last()});
    check_engines(std::move(one_channel).build(), 3);
    TestNetwork one_pixel(Shape{1, 3, 6, 5});
    one_pixel.conv(7, 1);
    one_pixel.add(GlobalAveragePool{}, {one_pixel.last()});
    one_pixel.add(Transpose{permutation}, {one_pixel.last()});
    check_engines(std::move(one_pixel).build(), 3 + 30);
  }
}

}  // namespace
}  // namespace mobicuda::test
