"""Describe what the operator computes: python3 -m utils.analysis [--json]."""

import sys

from utils.asking import ask

if __name__ == "__main__":
    ask("analyze", sys.argv[1:])
