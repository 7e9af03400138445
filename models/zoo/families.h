#pragma once

#include "network_writer.h"

// Each writes one network behind net.input() and returns its logits. Names of nodes and weights are those of the
// work that is named, so that files can be compared with its own.
namespace mobicuda::zoo {

Value write_lenet(NetworkWriter& net);
Value write_caffenet(NetworkWriter& net);
Value write_network_in_network(NetworkWriter& net);
Value write_vgg16(NetworkWriter& net);
Value write_vgg19(NetworkWriter& net);
Value write_squeezenet1_1(NetworkWriter& net);
Value write_resnet34_cifar(NetworkWriter& net);
Value write_resnet50(NetworkWriter& net);
Value write_resnet152(NetworkWriter& net);
Value write_resnext101_64x4d(NetworkWriter& net);
Value write_densenet201(NetworkWriter& net);
Value write_inception_bn(NetworkWriter& net);
Value write_inception_v3(NetworkWriter& net);
Value write_mobilenet_v1(NetworkWriter& net);
Value write_mobilenet_v3_large(NetworkWriter& net);
Value write_efficientnet_b0(NetworkWriter& net);

}  // namespace mobicuda::zoo
