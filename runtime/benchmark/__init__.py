"""Times a `.mnn` file, alone or interleaved with other runtimes: for `mnnconvert benchmark` and `bench/`."""
