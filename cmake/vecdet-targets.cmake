# SPDX-License-Identifier: Apache-2.0
# The targets that users link, created in the same way in this tree, in a parent project and by
# find_package(vecdet):
#   vecdet::vecdet     the headers, compiled for the including file's instruction set
#   vecdet::dispatch   the headers and a small static library with the kernels for every instruction
#                      set and the writers of the profiler's reports, built in the user's own tree
#   vecdet::c          a shared library with the C interface, vecdet/c.h, if requested by the option
#                      VECDET_C or the component c of find_package(vecdet)
#   vecdet::torch      a shared library with functions and operators on PyTorch's tensors, if requested
#                      by the option VECDET_TORCH or the component torch of find_package(vecdet)
#   vecdet::onnxruntime  a shared library with ONNX Runtime's operators of the domain ai.vecdet, if requested
#                      by the option VECDET_ONNXRUNTIME or the component onnxruntime of find_package(vecdet)
include_guard(GLOBAL)

find_package(TBB QUIET)
find_package(Threads REQUIRED)

# Debian's xsimd 8.1 exports a target that links a missing library: use only the headers.
if(TARGET xsimd AND NOT VECDET_XSIMD_INCLUDE_DIR)
  get_target_property(vecdet_xsimd_folders xsimd INTERFACE_INCLUDE_DIRECTORIES)
  # In the build of a project that has xsimd as a subdirectory, the folder is in an expression.
  string(REGEX REPLACE "\\$<BUILD_INTERFACE:([^>]*)>" "\\1" vecdet_xsimd_folders "${vecdet_xsimd_folders}")
  find_path(VECDET_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp PATHS ${vecdet_xsimd_folders}
            NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
endif()
find_path(VECDET_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp
          DOC "The folder that holds xsimd/xsimd.hpp (8.1 or newer)")
set(vecdet_xsimd_version "")
set(vecdet_xsimd_config "${VECDET_XSIMD_INCLUDE_DIR}/xsimd/config/xsimd_config.hpp")
if(EXISTS "${vecdet_xsimd_config}")
  file(STRINGS "${vecdet_xsimd_config}" vecdet_xsimd_version REGEX "define XSIMD_VERSION_(MAJOR|MINOR)")
  string(REGEX MATCHALL "[0-9]+" vecdet_xsimd_version "${vecdet_xsimd_version}")
  string(REPLACE ";" "." vecdet_xsimd_version "${vecdet_xsimd_version}")
endif()

# A message with the missing dependencies and the packages that have them; empty if nothing is missing.
set(vecdet_missing "")
if(NOT TARGET TBB::tbb)
  string(APPEND vecdet_missing "oneTBB was not found (TBBConfig.cmake): install libtbb-dev on Debian and "
    "Ubuntu, tbb-devel on Fedora, tbb in Conda and Homebrew, or add its folder to CMAKE_PREFIX_PATH. ")
endif()
if(NOT vecdet_xsimd_version)
  string(APPEND vecdet_missing "xsimd was not found (xsimd/xsimd.hpp): install libxsimd-dev on Debian and "
    "Ubuntu, xsimd-devel on Fedora, xsimd in Conda and Homebrew, or set VECDET_XSIMD_INCLUDE_DIR to the "
    "folder that holds xsimd/xsimd.hpp. ")
elseif(vecdet_xsimd_version VERSION_LESS 8.1) # Ubuntu 22.04
  string(APPEND vecdet_missing "xsimd in ${VECDET_XSIMD_INCLUDE_DIR} is version ${vecdet_xsimd_version}, and vecdet "
    "needs 8.1 or newer: install its headers from https://github.com/xtensor-stack/xsimd and set "
    "VECDET_XSIMD_INCLUDE_DIR to the folder that holds xsimd/xsimd.hpp. ")
endif()

# Each instruction set's unit has its own flags, independent of all others: they come last on the
# command line. Fast-math, contraction, LTO or a lower -O would change results or leak instructions.
set(VECDET_UNIT_FLAGS -O2 -ffp-contract=off -fno-fast-math -fno-math-errno
    -fno-lto -fvisibility=hidden)
# Limits GCC's search for the stores that a load may read. Compiling takes about an eighth less time; calls execute
# up to 2 % more or fewer instructions.
set(VECDET_UNIT_FLAGS_GNU --param=sccvn-max-alias-queries-per-access=30)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND VECDET_UNIT_FLAGS ${VECDET_UNIT_FLAGS_GNU})
endif()
set(VECDET_UNALIGNED_MOVES -Wa,-muse-unaligned-vector-move) # binutils 2.38 and newer
if(VECDET_SANITIZE)
  list(TRANSFORM VECDET_UNIT_FLAGS REPLACE "-O2" "-O1")
endif()
set(VECDET_FLAGS_baseline -march=x86-64 -mtune=generic -mno-avx)
set(VECDET_FLAGS_avx2 -march=x86-64-v3 -mtune=generic -mno-avx512f)
set(VECDET_FLAGS_avx512 -march=x86-64-v4 -mtune=generic -mprefer-vector-width=512)

# Families that share a unit, by its name: every unit parses the same headers, which takes up to a CPU second, and
# box losses share code. All other families have units of their own.
set(VECDET_UNIT_boxes head_boxes iou iou_loss regression_loss rotated_boxes smooth_l1)
set(VECDET_UNIT_features conv3x3 deformable_attention grouped_conv3x3 max_pool roi_align)
set(VECDET_UNIT_small assigners distribution_focal_loss filter_topk letterbox matching postprocess_yolo quantised_outputs
    query_matching set_loss softmax_cross_entropy)
set(VECDET_SHARED_UNITS boxes features small)

function(vecdet_add_targets include_dir)
  if(TARGET vecdet)
    return()
  endif()
  if(vecdet_missing)
    message(FATAL_ERROR "vecdet: ${vecdet_missing}")
  endif()
  add_library(vecdet INTERFACE)
  add_library(vecdet::vecdet ALIAS vecdet)
  target_compile_features(vecdet INTERFACE cxx_std_17)
  target_include_directories(vecdet INTERFACE "${include_dir}")
  target_include_directories(vecdet SYSTEM INTERFACE "${VECDET_XSIMD_INCLUDE_DIR}")
  target_link_libraries(vecdet INTERFACE TBB::tbb Threads::Threads)
  # On Windows, GCC moves vectors of AVX to and from the stack as if it were aligned for them, and it is not (GCC bug
  # 54412). The assembler makes these moves unaligned; with LTO it does so when it links.
  if(MINGW AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(vecdet INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${VECDET_UNALIGNED_MOVES}>)
    target_link_options(vecdet INTERFACE ${VECDET_UNALIGNED_MOVES})
  endif()

  # A unit is one or a few kernel families, kernels/X/X.hpp, compiled for one instruction set: a file of a few
  # lines in the build tree, so that units compile in parallel, rebuild separately and have their own flags.
  set(instruction_sets baseline)
  set(left_out "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(instruction_sets baseline avx2 avx512)
    if(VECDET_INSTRUCTION_SETS)
      foreach(set IN LISTS VECDET_INSTRUCTION_SETS)
        if(NOT set IN_LIST instruction_sets)
          message(FATAL_ERROR "vecdet: VECDET_INSTRUCTION_SETS names \"${set}\", expected baseline, avx2 or avx512")
        endif()
      endforeach()
      if(NOT "baseline" IN_LIST VECDET_INSTRUCTION_SETS)
        message(FATAL_ERROR "vecdet: VECDET_INSTRUCTION_SETS is \"${VECDET_INSTRUCTION_SETS}\", expected baseline "
          "among them, for processors without the others")
      endif()
      foreach(set IN ITEMS avx2 avx512)
        if(NOT set IN_LIST VECDET_INSTRUCTION_SETS)
          string(TOUPPER "VECDET_WITHOUT_${set}" macro)
          list(APPEND left_out "${macro}")
        endif()
      endforeach()
      set(instruction_sets ${VECDET_INSTRUCTION_SETS})
    endif()
  endif()
  set(units_dir "${CMAKE_CURRENT_BINARY_DIR}/vecdet_units")
  set(units "")
  file(GLOB families CONFIGURE_DEPENDS LIST_DIRECTORIES true "${include_dir}/vecdet/kernels/*")
  list(FILTER families EXCLUDE REGEX "\\.hpp$")
  list(TRANSFORM families REPLACE ".*/" "")
  set(unit_names ${VECDET_SHARED_UNITS} ${families})
  foreach(name IN LISTS VECDET_SHARED_UNITS)
    list(REMOVE_ITEM unit_names ${VECDET_UNIT_${name}})
  endforeach()
  foreach(set IN LISTS instruction_sets)
    set(flags ${VECDET_UNIT_FLAGS})
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
      list(APPEND flags ${VECDET_FLAGS_${set}})
    endif()
    if(set STREQUAL "avx512" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized) # GCC bug 105593: its own intrinsics
    endif()
    foreach(name IN LISTS unit_names)
      set(unit "${units_dir}/${set}/${name}.cpp")
      set(members ${name})
      if(name IN_LIST VECDET_SHARED_UNITS)
        set(members ${VECDET_UNIT_${name}})
      endif()
      set(source "#include <vecdet/isa/unit.hpp>\n")
      foreach(family IN LISTS members)
        string(APPEND source "#include <vecdet/kernels/${family}/${family}.hpp>\n")
      endforeach()
      set(written "")
      if(EXISTS "${unit}")
        file(READ "${unit}" written)
      endif()
      if(NOT written STREQUAL source) # a new time stamp would compile it again
        file(WRITE "${unit}" "${source}")
      endif()
      set_source_files_properties("${unit}" PROPERTIES COMPILE_OPTIONS "${flags}"
        COMPILE_DEFINITIONS "VECDET_ISA_UNIT=${set}")
      list(APPEND units "${unit}")
    endforeach()
  endforeach()
  add_library(vecdet_dispatch STATIC EXCLUDE_FROM_ALL
    ${units} "${include_dir}/vecdet/profile/environment.cpp")
  add_library(vecdet::dispatch ALIAS vecdet_dispatch)
  set_target_properties(vecdet_dispatch PROPERTIES
    INTERPROCEDURAL_OPTIMIZATION OFF UNITY_BUILD OFF DISABLE_PRECOMPILE_HEADERS ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(vecdet_dispatch INTERFACE VECDET_DISPATCH ${left_out})
  target_link_libraries(vecdet_dispatch PUBLIC vecdet)
endfunction()

# vecdet::c: libvecdet, which exports the functions of vecdet/c.h. With VECDET_TORCH_STABLE, it also has the operators
# that the Python package registers in PyTorch 2.10 or newer, and exports the functions for that
# (test/c/symbols_torch.txt); neither headers nor libraries of PyTorch are needed.
function(vecdet_add_c_target include_dir)
  if(TARGET vecdet_c)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${include_dir}/vecdet/c/*.cpp" "${include_dir}/vecdet/c/generated/*.cpp")
  if(VECDET_TORCH_STABLE)
    file(GLOB operators CONFIGURE_DEPENDS "${include_dir}/vecdet/torch/stable/*.cpp"
      "${include_dir}/vecdet/torch/stable/generated/*.cpp")
    list(APPEND sources ${operators})
  endif()
  add_library(vecdet_c SHARED ${sources})
  add_library(vecdet::c ALIAS vecdet_c)
  set_target_properties(vecdet_c PROPERTIES OUTPUT_NAME vecdet SOVERSION 0
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(vecdet_c PRIVATE -ffp-contract=off -fno-fast-math)
  # Instantiations of std:: templates are weak symbols of default visibility.
  set(exports "${CMAKE_CURRENT_BINARY_DIR}/vecdet_c.map")
  file(WRITE "${exports}" "{ global: vecdet_*; local: *; };\n")
  target_link_options(vecdet_c PRIVATE "-Wl,--version-script=${exports}" -Wl,--no-undefined)
  target_include_directories(vecdet_c INTERFACE "${include_dir}")
  target_link_libraries(vecdet_c PRIVATE vecdet_dispatch)
  if(VECDET_TORCH_STABLE)
    target_compile_definitions(vecdet_c PRIVATE VECDET_TORCH_STABLE)
    target_link_libraries(vecdet_c PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()

# vecdet::onnxruntime: libvecdet_onnxruntime.so, which a session loads. It exports only RegisterCustomOps, and gets
# the runtime's functions there, so it needs only the headers.
function(vecdet_add_onnxruntime_target include_dir)
  if(TARGET vecdet_onnxruntime)
    return()
  endif()
  find_path(VECDET_ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES onnxruntime onnxruntime/core/session
            DOC "The folder that holds onnxruntime_cxx_api.h (1.17 or newer)")
  if(NOT VECDET_ONNXRUNTIME_INCLUDE_DIR)
    message(FATAL_ERROR "vecdet::onnxruntime needs ONNX Runtime, whose onnxruntime_cxx_api.h was not found: install "
      "libonnxruntime-dev (not in Debian 12), or set VECDET_ONNXRUNTIME_INCLUDE_DIR to the folder that holds "
      "onnxruntime_cxx_api.h")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${include_dir}/vecdet/onnxruntime/*.cpp")
  add_library(vecdet_onnxruntime MODULE ${sources})
  add_library(vecdet::onnxruntime ALIAS vecdet_onnxruntime)
  set_target_properties(vecdet_onnxruntime PROPERTIES PREFIX lib
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(vecdet_onnxruntime PRIVATE -ffp-contract=off -fno-fast-math)
  set(exports "${CMAKE_CURRENT_BINARY_DIR}/vecdet_onnxruntime.map")
  file(WRITE "${exports}" "{ global: RegisterCustomOps; local: *; };\n")
  # Not unloaded with a session: its threads may still hold the profiler's logs.
  target_link_options(vecdet_onnxruntime PRIVATE "-Wl,--version-script=${exports}" -Wl,--no-undefined -Wl,-z,nodelete)
  target_include_directories(vecdet_onnxruntime SYSTEM PRIVATE "${VECDET_ONNXRUNTIME_INCLUDE_DIR}")
  target_link_libraries(vecdet_onnxruntime PRIVATE vecdet_dispatch)
endfunction()

# vecdet::torch, with the libtorch that find_package(Torch) finds.
function(vecdet_add_torch_target include_dir)
  if(TARGET vecdet_torch)
    return()
  endif()
  # Its targets refer to each other, and must be visible if this project is a subdirectory.
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(Torch QUIET)
  if(NOT TORCH_FOUND)
    message(FATAL_ERROR "vecdet::torch needs libtorch, whose TorchConfig.cmake was not found: install "
      "libtorch-dev, or add to CMAKE_PREFIX_PATH what "
      "python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' prints")
  endif()
  # Debian's libtorch has no TorchConfigVersion.cmake.
  if(NOT Torch_VERSION)
    find_file(VECDET_TORCH_VERSION_HEADER NAMES torch/headeronly/version.h torch/version.h
      PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH)
    mark_as_advanced(VECDET_TORCH_VERSION_HEADER)
    file(STRINGS "${VECDET_TORCH_VERSION_HEADER}" version_line REGEX "define TORCH_VERSION \"")
    string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" Torch_VERSION "${version_line}")
  endif()
  # at::parallel_for is an OpenMP loop in the files that include it.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  file(GLOB sources CONFIGURE_DEPENDS "${include_dir}/vecdet/torch/*operators.cpp"
    "${include_dir}/vecdet/torch/generated/*.cpp")
  add_library(vecdet_torch SHARED ${sources})
  add_library(vecdet::torch ALIAS vecdet_torch)
  if(Torch_VERSION VERSION_GREATER_EQUAL 2.10)
    target_compile_features(vecdet_torch PUBLIC cxx_std_20)
  endif()
  set_target_properties(vecdet_torch PROPERTIES
    INTERPROCEDURAL_OPTIMIZATION OFF VECDET_TORCH_VERSION "${Torch_VERSION}")
  target_compile_options(vecdet_torch PRIVATE -ffp-contract=off -fno-fast-math)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND NOT APPLE)
    # Some toolchains link the C++ library statically. The process has PyTorch's, too, and streams fail if the
    # symbols of both are mixed.
    target_link_options(vecdet_torch PRIVATE -Wl,--exclude-libs,libstdc++.a)
  endif()
  target_include_directories(vecdet_torch SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
  target_link_libraries(vecdet_torch PUBLIC vecdet_dispatch ${TORCH_LIBRARIES}
    PRIVATE OpenMP::OpenMP_CXX)
endfunction()
