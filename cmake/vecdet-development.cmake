# SPDX-License-Identifier: Apache-2.0
# What vecdet's own tests, benchmarks and examples are compiled with; users get none of it.
add_library(vecdet_development INTERFACE)
target_compile_options(vecdet_development INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(VECDET_WARNINGS_AS_ERRORS)
  target_compile_options(vecdet_development INTERFACE -Werror)
endif()
if(VECDET_SANITIZE)
  # pointer-overflow alone would take the compiler ten times as long as all other checks.
  target_compile_options(vecdet_development INTERFACE
    -fsanitize=${VECDET_SANITIZE} -fno-sanitize=pointer-overflow -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(vecdet_development INTERFACE -fsanitize=${VECDET_SANITIZE})
endif()
if(VECDET_SANITIZE MATCHES "address")
  # AddressSanitizer sees what these two do, which take the compiler half as long again.
  target_compile_options(vecdet_development INTERFACE -fno-sanitize=null,object-size)
endif()
if(VECDET_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Checks that are calls: inlined, they take the compiler twice as long.
  target_compile_options(vecdet_dispatch PRIVATE
    "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
endif()
target_link_libraries(vecdet_dispatch PRIVATE $<BUILD_INTERFACE:vecdet_development>)
