"""Build, check and time the submission: python3 -m utils.profiling [--baseline] [--json]."""

import sys

from utils.asking import ask

if __name__ == "__main__":
    ask("profile", sys.argv[1:])
