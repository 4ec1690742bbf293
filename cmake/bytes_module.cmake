# Run as a script: writes the bytes of the file FROM as the Python module TO.
file(READ "${FROM}" bytes HEX)
get_filename_component(name "${FROM}" NAME_WE)
file(WRITE "${TO}" "\"\"\"Made by the build from ${name}.proto.\"\"\"\n\nFILES = bytes.fromhex(\"${bytes}\")\n")
