# FOVEA_SANITIZE=address,undefined and the like, for every target; FOVEA_FUZZ adds libFuzzer's
# coverage. The build type Sanitize keeps assertions and enough optimisation to finish.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
if(FOVEA_SANITIZE)
  add_compile_options(-fsanitize=${FOVEA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FOVEA_SANITIZE})
endif()
if(FOVEA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)  # parsers need no SIMD: one instruction set
endif()

# What the tests need in their environment.
set(FOVEA_TEST_ENVIRONMENT "")
if(FOVEA_SANITIZE MATCHES address)
  list(APPEND FOVEA_TEST_ENVIRONMENT
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/leaks.supp:print_suppressions=0)
endif()
if(FOVEA_SANITIZE MATCHES thread)  # a test starts threads in a forked child
  # Fontconfig's thread and locks, under librsvg, were not compiled to be watched.
  list(APPEND FOVEA_TEST_ENVIRONMENT
    TSAN_OPTIONS=die_after_fork=0:ignore_noninstrumented_modules=1)
endif()
