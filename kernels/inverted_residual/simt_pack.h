// How the host packs the weights of a 1x1 convolution whose sums units of lanes share.
#pragma once

namespace mobicuda::kernels::inverted_simt_cluster {

/// Weights (rows, k) as Product::load() reads them, for units of `lanes` lanes and `channels` output channels:
/// `weight(row, k)`; a lane's input channel number i is `input(lane, i)`. Returns what follows `to`.
template <class Weight, class Input>
float* pack_product(int rows, int k, int lanes, int channels, const Weight& weight, const Input& input, float* to) {
  for (int group = 0; group < rows; group += channels) {
    for (int four = 0; four < k / lanes * channels; four += 4) {
      for (int lane = 0; lane < lanes; ++lane) {
        const int own = lane * channels / lanes;
        for (int i = four; i < four + 4; ++i) {
          *to++ = weight(group + (i % channels ^ own), input(lane, i / channels));
        }
      }
    }
  }
  return to;
}

}  // namespace mobicuda::kernels::inverted_simt_cluster
