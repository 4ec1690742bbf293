# libminnow.so: the C API of runtime/include/minnow/minnow.h and nothing else, for programs that embed the engine.
include(CMakePackageConfigHelpers)

set(exports "${PROJECT_SOURCE_DIR}/cmake/minnow.map")
add_library(minnow SHARED)
add_library(minnow::minnow ALIAS minnow)
target_link_libraries(minnow PRIVATE minnow_engine minnow_kernels)
target_include_directories(minnow INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(minnow PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
if(WIN32)
  target_compile_definitions(minnow_engine PRIVATE MINNOW_BUILDS_LIBRARY)
elseif(APPLE)
  target_link_options(minnow PRIVATE -Wl,-dead_strip "-Wl,-exported_symbol,_minnow_*")
else()
  # The map also hides the instantiations of the standard library, which hidden visibility does not.
  target_link_options(minnow PRIVATE -Wl,--gc-sections "-Wl,--version-script=${exports}")
  set_target_properties(minnow PROPERTIES LINK_DEPENDS "${exports}")
  if(NOT MINNOW_SANITIZE) # clang leaves the sanitizer's own symbols to the program
    target_link_options(minnow PRIVATE -Wl,--no-undefined)
  endif()
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/minnow")
file(RELATIVE_PATH prefix_from_pc "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p") # so that an installed tree can be moved
configure_file(cmake/minnow.pc.in minnow.pc @ONLY)
write_basic_package_version_file(minnow-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS minnow EXPORT minnow COMPONENT library
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}") # Windows
install(DIRECTORY runtime/include/ COMPONENT library DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT minnow COMPONENT library DESTINATION "${package_folder}" NAMESPACE minnow:: FILE minnow-config.cmake)
install(FILES "${PROJECT_BINARY_DIR}/minnow-config-version.cmake" COMPONENT library DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/minnow.pc" COMPONENT library DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
