# Groups of source files that are compiled as one. Half the time of a build was headers that every file read again,
# above all Highway's, which are compiled for each instruction set.
#
# A group has files with the same options, in the order of their paths. What a file keeps for itself (statics, anonymous
# namespaces, macros) is seen by the rest of its group, so names differ among all files with the same options:
# tests/test_build.py compiles them as one, and also each by itself, so that it includes what it needs.
set(MINNOW_GROUP_BYTES 60000 CACHE STRING
  "Source files are compiled together, up to so many bytes. 0: each by itself, for work on one of them")

# Replaces the files of the list `sources` by groups of them, each with the name of its first.
function(minnow_group sources)
  if(MINNOW_GROUP_BYTES EQUAL 0)
    return()
  endif()
  foreach(source IN LISTS ${sources})
    # Files that Highway compiles once per instruction set go through the compiler that way as a whole.
    file(STRINGS "${source}" simd REGEX "^#define HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    string(MD5 kind "${simd} ${options}")
    list(APPEND kinds ${kind})
    list(APPEND files_${kind} "${source}")
    set(options_${kind} "${options}")
  endforeach()
  list(REMOVE_DUPLICATES kinds)
  set(groups "")
  foreach(kind IN LISTS kinds)
    set(size 0)
    set(text "")
    foreach(source IN LISTS files_${kind} ITEMS "") # the last writes the last group
      set(bytes 0)
      if(source)
        file(SIZE "${source}" bytes)
        math(EXPR size "${size} + ${bytes}")
      endif()
      if(text AND (size GREATER MINNOW_GROUP_BYTES OR NOT source))
        string(REPLACE "/" "_" name "${first}")
        set(group "${PROJECT_BINARY_DIR}/groups/${name}")
        file(CONFIGURE OUTPUT "${group}" CONTENT "// Made by the build, see cmake/groups.cmake.\n${text}" @ONLY)
        if(options_${kind})
          set_property(SOURCE "${group}" APPEND PROPERTY COMPILE_OPTIONS "${options_${kind}}")
        endif()
        list(APPEND groups "${group}")
        set(text "")
        set(size ${bytes})
      endif()
      if(source)
        # From the root, not from here: the same text in every checkout, for caches of compilers.
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
        if(NOT text)
          set(first "${path}")
        endif()
        string(APPEND text "#include \"${path}\"\n")
      endif()
    endforeach()
  endforeach()
  set(${sources} "${groups}" PARENT_SCOPE)
endfunction()
