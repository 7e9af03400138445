#pragma once

#include <memory>

#include <cudnn.h>

#include "cudnn/cudnn_check.h"

namespace mobicuda::cudnn {

/// A descriptor of cuDNN's fixed-function API that destroys itself; a null one is none.
template <class Handle>
using Owned = std::shared_ptr<std::remove_pointer_t<Handle>>;

template <class Handle>
Owned<Handle> make_owned(cudnnStatus_t (*create)(Handle*), cudnnStatus_t (*destroy)(Handle)) {
  Handle handle = nullptr;
  check(create(&handle), "creating a descriptor");
  return {handle, [destroy](Handle owned) { destroy(owned); }};
}

inline Owned<cudnnTensorDescriptor_t> make_tensor_descriptor() {
  return make_owned<cudnnTensorDescriptor_t>(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor);
}
inline Owned<cudnnFilterDescriptor_t> make_filter_descriptor() {
  return make_owned<cudnnFilterDescriptor_t>(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor);
}
inline Owned<cudnnConvolutionDescriptor_t> make_convolution_descriptor() {
  return make_owned<cudnnConvolutionDescriptor_t>(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor);
}
inline Owned<cudnnActivationDescriptor_t> make_activation_descriptor() {
  return make_owned<cudnnActivationDescriptor_t>(cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor);
}
inline Owned<cudnnPoolingDescriptor_t> make_pooling_descriptor() {
  return make_owned<cudnnPoolingDescriptor_t>(cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor);
}
inline Owned<cudnnLRNDescriptor_t> make_lrn_descriptor() {
  return make_owned<cudnnLRNDescriptor_t>(cudnnCreateLRNDescriptor, cudnnDestroyLRNDescriptor);
}

/// The numbers that the libraries multiply with: doubles where the tensors are double, else floats.
struct Factors {
  const void* one;
  const void* zero;
};

inline Factors factors_of(bool of_double) {
  static constexpr float kFloats[] = {1.0F, 0.0F};
  static constexpr double kDoubles[] = {1.0, 0.0};
  return of_double ? Factors{&kDoubles[0], &kDoubles[1]} : Factors{&kFloats[0], &kFloats[1]};
}

}  // namespace mobicuda::cudnn
