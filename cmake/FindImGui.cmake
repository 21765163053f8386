# Dear ImGui as packaged (Debian, Ubuntu: libimgui-dev), which has no CMake config: one imported target, ImGui::ImGui, with the OpenGL 3
# backend that the static library holds. Its image loader, stb, is a library of its own there.
include(FindPackageHandleStandardArgs)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(IMGUI_PC QUIET imgui)
endif()
find_path(ImGui_INCLUDE_DIR imgui.h HINTS ${IMGUI_PC_INCLUDE_DIRS} PATH_SUFFIXES imgui)
find_library(ImGui_LIBRARY imgui HINTS ${IMGUI_PC_LIBRARY_DIRS})
find_library(ImGui_STB_LIBRARY stb)
mark_as_advanced(ImGui_INCLUDE_DIR ImGui_LIBRARY ImGui_STB_LIBRARY)
find_package_handle_standard_args(ImGui REQUIRED_VARS ImGui_LIBRARY ImGui_STB_LIBRARY ImGui_INCLUDE_DIR VERSION_VAR IMGUI_PC_VERSION
  REASON_FAILURE_MESSAGE "Install libimgui-dev (./linnet build does it), or build without the probe dock: -DLINNET_IMGUI=OFF.")
if(ImGui_FOUND AND NOT TARGET ImGui::ImGui)
  add_library(ImGui::ImGui STATIC IMPORTED)
  set_target_properties(ImGui::ImGui PROPERTIES IMPORTED_LOCATION "${ImGui_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ImGui_INCLUDE_DIR};${ImGui_INCLUDE_DIR}/backends"
    INTERFACE_LINK_LIBRARIES "${ImGui_STB_LIBRARY};${CMAKE_DL_LIBS}")
endif()
