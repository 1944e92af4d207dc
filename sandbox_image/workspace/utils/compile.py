"""Build the kernels: python3 -m utils.compile [--json]."""

import sys

from utils.asking import ask

if __name__ == "__main__":
    ask("compile", sys.argv[1:])
