"""Which inputs the checked calls of a judgement get, in their order; drawing.py says what each kind is."""

IN_LOOP = ("native", "signed", "native", "sparse", "native")
FINAL = ("native", "signed", "native", "sparse", "native", "signed", "sparse", "native", "signed", "sparse")
TIMED = "timed"
"""Native inputs of a timed call, of which only the twin is wanted."""
