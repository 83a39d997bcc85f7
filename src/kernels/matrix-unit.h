#pragma once

#include <cstdint>

// Intel's matrix unit (AMX): products of blocks of 16 × 16 sums, 16 words of 32 bits deep. A word
// holds two bf16 or four bytes of neighbours in k; sums are float32, or whole numbers of 32 bits.
// It is there where uses_matrix_unit() (core/isa.h) says so. Compilers know its registers by their
// numbers alone.
namespace fovea::kernels::unit {

constexpr int64_t kSide = 16;  // rows of a block, its columns, and words of a step

#if defined(__x86_64__)

// While it lives, this thread has eight registers of 16 rows of 64 bytes. Empty where not wanted.
class Registers {
 public:
  explicit Registers(bool wanted) : there_(wanted) {
    if (!there_) return;
    struct alignas(64) Shapes {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Shapes kShapes;
    asm volatile("ldtilecfg %0" : : "m"(kShapes));
  }
  ~Registers() {
    if (there_) asm volatile("tilerelease");
  }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;

 private:
  bool there_;
};

template <int R>
inline void clear() {
  asm volatile("tilezero %%tmm%c0" : : "i"(R));
}
// 16 rows, `step` words apart.
template <int R, class T>
inline void load(const T* from, int64_t step) {
  static_assert(sizeof(T) == 4);
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(R), "r"(from), "r"(4 * step) : "memory");
}
template <int R, class T>
inline void store(T* to, int64_t step) {
  static_assert(sizeof(T) == 4);
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(R), "r"(to), "r"(4 * step) : "memory");
}

// sum += a·b, of a [16 rows][16 words of k] and b [16 words of k][16 columns].
struct Halves {  // bf16, those below 2⁻¹²⁶ count as 0
  template <int S, int A, int B>
  static inline void add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(S), "i"(A), "i"(B));
  }
};
struct Bytes {  // of a with a sign, of b without
  template <int S, int A, int B>
  static inline void add() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(S), "i"(A), "i"(B));
  }
};

#else

class Registers {
 public:
  explicit Registers(bool) {}
};
template <int R>
inline void clear() {}
template <int R, class T>
inline void load(const T*, int64_t) {}
template <int R, class T>
inline void store(T*, int64_t) {}
struct Halves {
  template <int S, int A, int B>
  static inline void add() {}
};
struct Bytes {
  template <int S, int A, int B>
  static inline void add() {}
};

#endif

// a's rows and b's, `step` words apart.
struct Words {
  const uint32_t* data;
  int64_t step;
  const uint32_t* at(int64_t row, int64_t word) const { return data + row * step + word; }
};

// C[m×n] (+)= A[m×K]·B[K×n]: m and n in numbers, K in words, all of them multiples of 16.
template <class Sum>
struct Product {
  Words a, b;
  Sum* c;
  int64_t ldc;
  int64_t m, n, K;
  bool accumulate;
};

// Rows i … i + 16·R and columns j … j + 16·S. Sums lie in registers 0 to 3, 4 and 5 are of A.
template <class By, int R, int S, class Sum>
inline void block(const Product<Sum>& x, int64_t i, int64_t j) {
  const auto each = [&](const auto& do_with) {
    do_with.template operator()<0, 0, 0>();
    if constexpr (S == 2) do_with.template operator()<1, 0, 1>();
    if constexpr (R == 2) do_with.template operator()<2, 1, 0>();
    if constexpr (R == 2 && S == 2) do_with.template operator()<3, 1, 1>();
  };
  each([&]<int T, int r, int s>() {
    if (x.accumulate) {
      load<T>(x.c + (i + r * kSide) * x.ldc + j + s * kSide, x.ldc);
    } else {
      clear<T>();
    }
  });
  for (int64_t k = 0; k < x.K; k += kSide) {
    load<4>(x.a.at(i, k), x.a.step);
    load<6>(x.b.at(k, j), x.b.step);
    if constexpr (R == 2) load<5>(x.a.at(i + kSide, k), x.a.step);
    if constexpr (S == 2) load<7>(x.b.at(k, j + kSide), x.b.step);
    each([&]<int T, int r, int s>() { By::template add<T, 4 + r, 6 + s>(); });
  }
  each([&]<int T, int r, int s>() {
    store<T>(x.c + (i + r * kSide) * x.ldc + j + s * kSide, x.ldc);
  });
}

// Two blocks by two at a time: each step loads four registers and multiplies four times.
template <class By, class Sum>
inline void multiply(const Product<Sum>& x) {
  constexpr int64_t kTwo = 2 * kSide;
  for (int64_t i = 0; i < x.m; i += kTwo) {
    const bool rows = i + kTwo <= x.m;
    for (int64_t j = 0; j < x.n; j += kTwo) {
      const bool columns = j + kTwo <= x.n;
      if (rows && columns) {
        block<By, 2, 2>(x, i, j);
      } else if (rows) {
        block<By, 2, 1>(x, i, j);
      } else if (columns) {
        block<By, 1, 2>(x, i, j);
      } else {
        block<By, 1, 1>(x, i, j);
      }
    }
  }
}

}  // namespace fovea::kernels::unit
