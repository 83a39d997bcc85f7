// Included behind <hwy/foreach_target.h>: where FOVEA_SMALL_SCALAR is defined, the code for
// processors without SSE4 is compiled for size. It comes last in a file, so that nothing else is.
#if HWY_TARGET == HWY_SCALAR && defined(FOVEA_SMALL_SCALAR) && defined(__GNUC__) && \
    !defined(__clang__)
#pragma GCC optimize("Os")
#endif
