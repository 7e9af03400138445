#include "bench_engine/command_line/sweep.h"

#include "bench_engine/model/exit_codes.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench;

namespace {

using Numbers = std::vector<std::int64_t>;

Numbers range(const std::string& text) { return parse_range(text, "--batch", 1); }

}  // namespace

TEST_CASE("ranges step and multiply, both ends included", "[sweep]") {
  CHECK(range("7") == Numbers{7});
  CHECK(range("2:3") == Numbers{2, 3});
  CHECK(range("1:5:2") == Numbers{1, 3, 5});
  CHECK(range("1:8:1") == Numbers{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(range("1:6:2") == Numbers{1, 3, 5});
  CHECK(range("1:256:*2") == Numbers{1, 2, 4, 8, 16, 32, 64, 128, 256});
  CHECK(range("3:20:*2") == Numbers{3, 6, 12});
  CHECK(parse_ranges({"1", "4:6:2"}, "--batch", 1) == Numbers{1, 4, 6});
  CHECK(parse_range("0:2", "--threads", 0) == Numbers{0, 1, 2});
}

TEST_CASE("ranges near the largest number end", "[sweep]") {
  CHECK(range("9223372036854775806:9223372036854775807:5") == Numbers{9223372036854775806});
  CHECK(range("9223372036854775806:9223372036854775807:*2") == Numbers{9223372036854775806});
}

TEST_CASE("what is no range is refused", "[sweep]") {
  for (const char* text : {"0", "-1", "x", "", "1x", " 1", "5:1", "1:2:3:4", "1:5:0", "1:5:-1", "1:5:*1", "1:5:*0",
                           "1:5:*", "1:5:**2", "1:", ":5", "99999999999999999999", "1:1000000000000"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(range(text), UsageError);
  }
  CHECK_THROWS_AS(parse_range("0:8:*2", "--threads", 0), UsageError);
  CHECK_THROWS_WITH(range("0"), contains("--batch: must be at least 1, got 0"));
  CHECK_THROWS_AS(parse_ranges({"1:600", "1:600"}, "--batch", 1), UsageError);
}
