"""`python -m minnow` is `mnnconvert`."""

from minnow.cli import main

if __name__ == "__main__":
    main()
