"""`python -m fovea` and the script `fovea`: the program itself."""

import sys


def main() -> int:
    from . import _program

    return _program.main(["fovea", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
