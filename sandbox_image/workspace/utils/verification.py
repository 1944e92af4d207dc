"""Build and check the submission: python3 -m utils.verification [--json]."""

import sys

from utils.asking import ask

if __name__ == "__main__":
    ask("verify", sys.argv[1:])
