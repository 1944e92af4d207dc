"""How the answers of a served judge look on the wire. Standard library only."""

import struct

STDOUT, STDERR, EXIT, REPORT = 1, 2, 3, 4
FRAME = struct.Struct("!BI")
LENGTH = struct.Struct("!I")
