#include <algorithm>
#include <vector>

#include "cuda/loops.cuh"
#include "cuda/table.h"

// Convolution by columns and products, some images at a time: columns [images·groups][K, P] in no
// more memory than kColumns. Windows that are one place wide and leave nothing out need none.
namespace fovea::cuda {
namespace {

constexpr int64_t kColumns = int64_t{1} << 26;  // numbers

__global__ __launch_bounds__(kThreads) void to_columns(Window w, int64_t planes, const float* x,
                                                       float* columns) {
  const int64_t P = w.OY * w.OX, K = w.C * w.KY * w.KX;
  for (int64_t t = first_element(); t < planes * K * P; t += element_step()) {
    const int64_t p = t % P, k = t / P % K, plane = t / P / K;
    const int64_t kx = k % w.KX, ky = k / w.KX % w.KY, c = k / w.KX / w.KY;
    const int64_t y = p / w.OX * w.stride_y + ky * w.dilation_y - w.pad_y;
    const int64_t z = p % w.OX * w.stride_x + kx * w.dilation_x - w.pad_x;
    const bool inside = y >= 0 && y < w.Y && z >= 0 && z < w.X;
    columns[t] = inside ? x[((plane * w.C + c) * w.Y + y) * w.X + z] : 0.0f;
  }
}

// Each x adds up the columns it went to.
__global__ __launch_bounds__(kThreads) void from_columns(Window w, int64_t planes,
                                                         const float* columns, float* x) {
  const int64_t P = w.OY * w.OX, K = w.C * w.KY * w.KX, size = w.C * w.Y * w.X;
  for (int64_t t = first_element(); t < planes * size; t += element_step()) {
    const int64_t z = t % w.X, y = t / w.X % w.Y, c = t / w.X / w.Y % w.C, plane = t / size;
    float sum = 0.0f;
    for (int64_t ky = 0; ky < w.KY; ++ky) {
      const int64_t oy = y + w.pad_y - ky * w.dilation_y;
      if (oy < 0 || oy % w.stride_y != 0 || oy / w.stride_y >= w.OY) continue;
      for (int64_t kx = 0; kx < w.KX; ++kx) {
        const int64_t ox = z + w.pad_x - kx * w.dilation_x;
        if (ox < 0 || ox % w.stride_x != 0 || ox / w.stride_x >= w.OX) continue;
        const int64_t k = (c * w.KY + ky) * w.KX + kx;
        sum += columns[(plane * K + k) * P + oy / w.stride_y * w.OX + ox / w.stride_x];
      }
    }
    x[t] = sum;
  }
}

int64_t x_size(const Convolution& c) { return c.window.C * c.window.Y * c.window.X; }

// body(first image, images, their columns or null)
template <class Body>
void in_parts(const Convolution& c, const Body& body) {
  const int64_t image = c.G * c.K() * c.P();
  if (c.N == 0 || image == 0) return;
  const int64_t at_once = std::clamp<int64_t>(kColumns / image, 1, c.N);
  const bool plain = is_plain(c.window);
  const Scratch<float> columns(plain ? 0 : static_cast<size_t>(at_once * image));
  for (int64_t n = 0; n < c.N; n += at_once) {
    body(n, std::min(at_once, c.N - n), columns.data());
  }
}

void unfold_images(const Convolution& c, int64_t images, const float* x, float* columns) {
  const int64_t n = images * c.G * c.K() * c.P();
  to_columns<<<grid_for(n), kThreads, 0, stream()>>>(c.window, images * c.G, x, columns);
  check_launch("convolution, columns");
}

// Each group's products over some images, as one batch: offsets of A and B by image.
struct ImageProducts {
  Gemm each;
  int64_t a_group, a_image, b_group, b_image, c_group;  // from one to the next
};

void multiply_images(const ImageProducts& x, int64_t groups, int64_t images, int64_t c_image) {
  std::vector<int64_t> a_at(static_cast<size_t>(images)), b_at(a_at.size());
  for (size_t i = 0; i < a_at.size(); ++i) {
    a_at[i] = static_cast<int64_t>(i) * x.a_image;
    b_at[i] = static_cast<int64_t>(i) * x.b_image;
  }
  for (int64_t g = 0; g < groups; ++g) {
    Gemm one = x.each;
    one.a += g * x.a_group;
    one.b = static_cast<const float*>(x.each.b) + g * x.b_group;
    one.c += g * x.c_group;
    one.batch = images;
    one.a_at = a_at.data();
    one.b_at = b_at.data();
    one.c_step = c_image;
    cuda::gemm(one);
  }
}

// ---- pooling -----------------------------------------------------------------------------------

struct Span {
  int64_t begin, end;
};
__device__ __forceinline__ Span span_of(int64_t place, int64_t stride, int64_t pad, int64_t width,
                                        int64_t size) {
  const int64_t begin = place * stride - pad;
  return {max(begin, int64_t{0}), min(begin + width, size)};
}

template <bool kLargest>
__global__ __launch_bounds__(kThreads) void pool(Pooling p, const float* x, float* y,
                                                 int64_t* from) {
  const Window& w = p.window;
  const int64_t P = w.OY * w.OX;
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for (int64_t t = first_element(); t < p.planes * P; t += element_step()) {
    const float* plane = x + t / P * w.Y * w.X;
    const Span ys = span_of(t % P / w.OX, w.stride_y, w.pad_y, w.KY, w.Y);
    const Span xs = span_of(t % w.OX, w.stride_x, w.pad_x, w.KX, w.X);
    float best = -INFINITY, sum = 0.0f;
    int64_t at = ys.begin * w.X + xs.begin;
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) {
        const float v = plane[i * w.X + j];
        sum += v;
        if (v > best || v != v) best = v, at = i * w.X + j;
      }
    }
    y[t] = kLargest ? best : sum * part;
    if (kLargest) from[t] = at;
  }
}

// Each x adds up what the windows over it give, in their order.
template <bool kLargest>
__global__ __launch_bounds__(kThreads) void d_pool(Pooling p, const int64_t* from, const float* dy,
                                                   float* dx) {
  const Window& w = p.window;
  const int64_t P = w.OY * w.OX, size = w.Y * w.X;
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for (int64_t t = first_element(); t < p.planes * size; t += element_step()) {
    const int64_t plane = t / size, y = t % size / w.X, x = t % w.X;
    const auto first = [](int64_t at, int64_t pad, int64_t width, int64_t stride) {
      const int64_t least = at + pad - width + 1;
      return least <= 0 ? int64_t{0} : (least + stride - 1) / stride;
    };
    float sum = dx[t];
    for (int64_t oy = first(y, w.pad_y, w.KY, w.stride_y);
         oy < w.OY && oy * w.stride_y - w.pad_y <= y; ++oy) {
      for (int64_t ox = first(x, w.pad_x, w.KX, w.stride_x);
           ox < w.OX && ox * w.stride_x - w.pad_x <= x; ++ox) {
        const int64_t at = plane * P + oy * w.OX + ox;
        if (kLargest) {
          if (from[at] == t % size) sum += dy[at];
        } else {
          sum += dy[at] * part;
        }
      }
    }
    dx[t] = sum;
  }
}

}  // namespace

void conv(const Convolution& c, const float* x, const float* w, float* y) {
  const int64_t K = c.K(), P = c.P();
  if (K == 0) return clear(y, static_cast<size_t>(c.N * c.G * c.O * P) * sizeof(float));
  in_parts(c, [&](int64_t n, int64_t images, float* columns) {
    const float* from = x + n * c.G * x_size(c);
    if (columns) unfold_images(c, images, from, columns);
    Gemm each{.m = c.O,
              .n = P,
              .k = K,
              .a = w,
              .a_row = K,
              .b = columns ? columns : from,
              .b_row = P,
              .c = y + n * c.G * c.O * P,
              .c_row = P};
    multiply_images({each, c.O * K, 0, K * P, c.G * K * P, c.O * P}, c.G, images, c.G * c.O * P);
  });
}

void d_conv_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  const int64_t K = c.K(), P = c.P();
  if (K * P == 0) return clear(dx, static_cast<size_t>(c.N * c.G * x_size(c)) * sizeof(float));
  in_parts(c, [&](int64_t n, int64_t images, float* columns) {
    float* to = dx + n * c.G * x_size(c);
    Gemm each{.m = K,
              .n = P,
              .k = c.O,
              .a = w,
              .a_row = 1,
              .a_col = K,
              .b = dy + n * c.G * c.O * P,
              .b_row = P,
              .c = columns ? columns : to,
              .c_row = P};
    multiply_images({each, c.O * K, 0, c.O * P, c.G * c.O * P, K * P}, c.G, images, c.G * K * P);
    if (!columns) return;
    const int64_t size = images * c.G * x_size(c);
    from_columns<<<grid_for(size), kThreads, 0, stream()>>>(c.window, images * c.G, columns, to);
    check_launch("convolution, backward");
  });
}

// A part's products, image by image, then their sum.
void d_conv_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  const int64_t K = c.K(), P = c.P(), size = c.G * c.O * K;
  clear(dw, static_cast<size_t>(size) * sizeof(float));
  in_parts(c, [&](int64_t n, int64_t images, float* columns) {
    const float* from = x + n * c.G * x_size(c);
    if (columns) unfold_images(c, images, from, columns);
    const Scratch<float> parts(static_cast<size_t>((images + 1) * size));
    Gemm each{.m = c.O,
              .n = K,
              .k = P,
              .a = dy + n * c.G * c.O * P,
              .a_row = P,
              .b = columns ? columns : from,
              .b_row = 1,
              .b_col = P,
              .c = parts.data(),
              .c_row = K};
    multiply_images({each, c.O * P, c.G * c.O * P, K * P, c.G * K * P, c.O * K}, c.G, images, size);
    float* const all = parts.data() + images * size;
    check(cudaMemcpyAsync(all, dw, static_cast<size_t>(size) * sizeof(float),
                          cudaMemcpyDeviceToDevice, stream()),
          "convolution, backward");
    const int64_t kept[] = {size}, one[] = {1}, reduced[] = {images + 1}, step[] = {size};
    cuda::reduce(Reduce::sum, {kept, one}, {reduced, step}, parts.data(), dw);
  });
}

void max_pool(const Pooling& p, const float* x, float* y, int64_t* from) {
  const int64_t n = p.planes * p.window.OY * p.window.OX;
  if (n == 0) return;
  pool<true><<<grid_for(n), kThreads, 0, stream()>>>(p, x, y, from);
  check_launch("max pool");
}
void d_max_pool(const Pooling& p, const int64_t* from, const float* dy, float* dx) {
  const int64_t n = p.planes * p.window.Y * p.window.X;
  if (n == 0) return;
  d_pool<true><<<grid_for(n), kThreads, 0, stream()>>>(p, from, dy, dx);
  check_launch("max pool, backward");
}
void avg_pool(const Pooling& p, const float* x, float* y) {
  const int64_t n = p.planes * p.window.OY * p.window.OX;
  if (n == 0) return;
  pool<false><<<grid_for(n), kThreads, 0, stream()>>>(p, x, y, nullptr);
  check_launch("average pool");
}
void d_avg_pool(const Pooling& p, const float* dy, float* dx) {
  const int64_t n = p.planes * p.window.Y * p.window.X;
  if (n == 0) return;
  d_pool<false><<<grid_for(n), kThreads, 0, stream()>>>(p, nullptr, dy, dx);
  check_launch("average pool, backward");
}

}  // namespace fovea::cuda
