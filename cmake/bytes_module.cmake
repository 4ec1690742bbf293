# Run as a script: writes the bytes of the file FROM as the Python module TO.
file(READ "${FROM}" bytes HEX)
file(WRITE "${TO}" "\"\"\"Made by the build from graph.proto.\"\"\"\n\nFILES = bytes.fromhex(\"${bytes}\")\n")
