// protobuf_stranger LIBRARY FOLDER MODE: a program that exports a function of protobuf which is not that of
// libmobicuda's version: where libmobicuda is bound to it, it reads no model. MODE is "local" or "deep", as of
// protobuf_host.
#include "install/loaded.h"

using namespace mobicuda::test;  // NOLINT(google-build-using-namespace)

namespace google::protobuf {

class MessageLite {  // NOLINT(misc-use-internal-linkage): its name is to be protobuf's
 public:
  // NOLINTNEXTLINE(readability-identifier-naming)
  __attribute__((visibility("default"), used)) bool ParseFromArray(const void* data, int size);
};

bool MessageLite::ParseFromArray(const void* /*data*/, int /*size*/) { fail("bound to the stranger's protobuf"); }

}  // namespace google::protobuf

int main(int count, char** arguments) {
  if (count != 4) fail("usage: protobuf_stranger LIBRARY FOLDER local|deep");
  const int deep = std::string(arguments[3]) == "deep" ? RTLD_DEEPBIND : 0;
  use_library(load_library(arguments[1], RTLD_NOW | RTLD_LOCAL | deep), arguments[2]);
}
