# LibTorch as one imported target, LibTorch::LibTorch. Torch's own config insists on a CUDA compiler and sets global flags, so
# it is not used. The CUDA half (libtorch_cuda) is loaded at run time by core/model/device.cpp, only where there is a GPU:
# that keeps the start of a program on other machines short.
include(FindPackageHandleStandardArgs)
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${LINNET_TORCH_ROOT}/include NO_DEFAULT_PATH)
foreach(lib torch torch_cpu c10)
  find_library(LibTorch_${lib}_LIBRARY ${lib} HINTS ${LINNET_TORCH_ROOT}/lib NO_DEFAULT_PATH)
endforeach()
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  LibTorch_INCLUDE_DIR REASON_FAILURE_MESSAGE "Set LINNET_TORCH_ROOT to the folder of LibTorch 2.11 (./linnet build does it).")
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LibTorch_INCLUDE_DIR})
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_torch_cpu_LIBRARY} ${LibTorch_c10_LIBRARY})
endif()
