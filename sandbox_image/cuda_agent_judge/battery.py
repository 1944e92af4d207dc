"""Which inputs the checked calls of a judgement get, in their order; drawing.py says what each kind is."""

IN_LOOP = ("native", "signed", "native", "sparse")
FINAL = ("native", "signed", "native", "sparse", "native", "signed", "sparse", "native", "signed", "sparse")
AUDITED = "native"
"""Of one more call behind these, which is looked at from inside."""
TIMED = "timed"
"""Native inputs of a timed call, of which only the twin is wanted."""
