# SPDX-License-Identifier: Apache-2.0
# Compiler flags of vecdet's own tests, benchmarks and examples; they do not affect users.
add_library(vecdet_development INTERFACE)
target_compile_options(vecdet_development INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(VECDET_WARNINGS_AS_ERRORS)
  target_compile_options(vecdet_development INTERFACE -Werror)
endif()
if(VECDET_SANITIZE)
  # pointer-overflow alone would make compilation ten times as slow as all other checks together.
  target_compile_options(vecdet_development INTERFACE
    -fsanitize=${VECDET_SANITIZE} -fno-sanitize=pointer-overflow -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(vecdet_development INTERFACE -fsanitize=${VECDET_SANITIZE})
endif()
if(VECDET_SANITIZE MATCHES "address")
  # AddressSanitizer finds the same errors as these two, which make compilation 50% slower.
  target_compile_options(vecdet_development INTERFACE -fno-sanitize=null,object-size)
endif()
if(VECDET_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Out-of-line checks: inlined ones double the compile time.
  target_compile_options(vecdet_dispatch PRIVATE
    "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
endif()
target_link_libraries(vecdet_dispatch PRIVATE $<BUILD_INTERFACE:vecdet_development>)
if(TARGET vecdet_c)
  target_link_libraries(vecdet_c PRIVATE $<BUILD_INTERFACE:vecdet_development>)
endif()
