"""bench.neighbour with a judge that is given: python program.py JUDGE... -- ARGUMENTS"""

import sys

from bench.judgements import Judged
from bench.neighbour import main

if __name__ == "__main__":
    cut = sys.argv.index("--")
    judge, sys.argv[1:] = sys.argv[1:cut], sys.argv[cut + 1 :]
    raise SystemExit(main(Judged(judge)))
