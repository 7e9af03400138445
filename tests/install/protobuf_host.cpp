// protobuf_host LIBRARY FOLDER MODE: a program with protobuf of its own, linked statically, and messages of the same
// schema in it loads libmobicuda, whose protobuf is the system's. MODE is how: "local", or "deep" for RTLD_DEEPBIND,
// which a program needs that exports its protobuf's symbols.
#include <google/protobuf/stubs/common.h>
#include <host_onnx.pb.h>

#include "install/loaded.h"

using namespace mobicuda::test;  // NOLINT(google-build-using-namespace)

namespace {

void use_own_protobuf() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.mutable_graph()->set_name("the host's");
  model.mutable_graph()->add_node()->set_op_type("Relu");
  onnx::ModelProto again;
  if (!again.ParseFromString(model.SerializeAsString()) || again.graph().name() != "the host's") {
    fail("the host's protobuf does not work");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) fail("usage: protobuf_host LIBRARY FOLDER local|deep");
  const int flags = RTLD_NOW | RTLD_LOCAL | (std::string(arguments[3]) == "deep" ? RTLD_DEEPBIND : 0);
  use_own_protobuf();
  for (int i = 0; i < 3; ++i) {
    void* library = load_library(arguments[1], flags);
    if (!is_mapped("libprotobuf-lite.so")) fail("libmobicuda has no protobuf of its own: there is nothing to test");
    use_library(library, arguments[2]);
    use_own_protobuf();
    dlclose(library);
    if (is_mapped("libmobicuda")) fail("libmobicuda is still mapped");
  }
  use_own_protobuf();
  google::protobuf::ShutdownProtobufLibrary();  // must not call into what was unloaded
}
