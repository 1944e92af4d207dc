"""How the threads of a GPU are laid over the rows of a kernel, and what of a row stays in shared memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.dtypes import ITEM_BYTES
from cuda_agent.llm.builtin.expr import Index, Load
from cuda_agent.llm.builtin.folds import Walk
from cuda_agent.llm.builtin.graph import dense_strides
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.rows import Rows

HELD_COLUMNS = 1024
"""Rows longer than this are worth being held; shorter ones belong to a warp, and stay in the first-level cache."""
WARPS = 64
"""Warps that run at once on a multiprocessor."""
HELD_THREADS = {1: 1024, 2: 768, 3: 512, 4: 384}
"""Threads of a block by how many blocks a multiprocessor has: 1536 at once, so that each can have 40 registers."""
SHARED_BYTES = 227 << 10
"""Shared memory of a multiprocessor that blocks can have (compute capability 9.0)."""
BLOCK_EXTRA = 3 << 10
"""What a block needs of it beside the row: the system's part, and the states of its warps."""
TEAMS = 3
"""Teams at least that run at once: while one waits for its last block, others move memory."""
PART_COLUMNS = 4096
"""Parts of a row are not shorter than this."""
TILE_BYTES = 24 << 10
"""What of a tile stays in the first-level cache beside those of seven other blocks."""
STATES_BYTES = 40 << 10
"""Shared memory for the states of a block's lanes: less than 48 KB, which a kernel may have without asking."""
MAX_BLOCKS = 2112
"""Blocks of teams at most: sixteen on each of 132 multiprocessors."""

Reach = Literal["pack", "one", "row", "gather"]
"""How a thread reads neighbouring elements: side by side, one for all of them, one for the whole row, one by one."""


@dataclass(frozen=True)
class Layout:
    """Where rows, their parts and their columns go."""

    across: bool
    """Lanes are neighbouring rows."""
    threads: tuple[int, int]
    """x and y of a block. Along: y > 1 means a warp a row. Across: lanes and lines."""
    unroll: int
    """Vectors that a thread loads before it computes."""
    parts: int
    """Parts of a row, each a block in a launch of its own for each walk."""
    team: int
    """Blocks that hold a row together in one launch; 0: nothing is held."""
    chunk: int
    """Columns of a part, or of a team's block."""
    vector: int = 16
    """Elements of a vector at most."""
    held: tuple[tuple[object, ...], ...] = ()
    """Which accesses are held in shared memory, by `home`."""

    blocks: int = 1
    """Blocks that a multiprocessor is to have at least."""

    @property
    def a_row_a_warp(self) -> bool:
        """Whether a row belongs to a warp."""
        return not self.across and self.threads[1] > 1

    @property
    def size(self) -> int:
        """Threads of a block."""
        return self.threads[0] * self.threads[1]


def home(walk: Walk, access: Access) -> tuple[object, ...] | None:
    """Say where a row's elements lie, however its dimensions are cut; None where they do not lie side by side."""
    count = len(walk.rows)
    wanted = dense_strides(walk.columns)
    strides = access.index.strides
    pairs = zip(walk.columns, strides[count:], wanted, strict=True)
    if walk.width == 1 or any(size != 1 and step != dense for size, step, dense in pairs):
        return None
    runs: list[tuple[int, int]] = []
    for size, stride in zip(walk.rows, strides[:count], strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return (access.buffer.name, access.index.offset, walk.width, tuple(runs))


def reach(index: Index, rows: int, lane: int) -> Reach:
    """Say how an access is read; its first `rows` dimensions are the row's, `lane` goes from element to element."""
    columns = [step for k, step in enumerate(index.strides) if k >= rows]
    if not any(columns):
        return "row"
    return {1: "pack", 0: "one"}.get(index.strides[lane], "gather")  # type: ignore[return-value]


def accesses_of(walk: Walk, rows: Rows) -> list[Access]:
    """Return what a walk reads from memory, each once."""
    numbers = rows.numbers
    found = {(node.source, node.index): node for node in walk.loads() if node.source not in numbers}
    return [rows.access(Load(source, node.dtype, index)) for (source, index), node in found.items()]


def shared_homes(walks: Sequence[Walk], rows: Rows) -> dict[tuple[object, ...], int]:
    """Return what more than one walk reads of a row, with the size of an element."""
    counts: dict[tuple[object, ...], int] = {}
    sizes: dict[tuple[object, ...], int] = {}
    for walk in walks:
        places = {home(walk, access): access for access in accesses_of(walk, rows)}
        for place, access in places.items():
            if place is not None:
                counts[place] = counts.get(place, 0) + 1
                sizes[place] = ITEM_BYTES[access.buffer.spec.dtype]
    return {place: sizes[place] for place, count in counts.items() if count > 1}


def layout_of(rows: Rows, walks: Sequence[Walk], options: CudaOptions, processors: int) -> Layout:
    """Choose the layout of a kernel."""
    width = max(walk.width for walk in walks)
    if rows.across:
        return across_layout(rows, walks, options, processors)
    if options.held and width > HELD_COLUMNS:
        held = held_layout(rows, walks, options, processors)
        if held is not None:
            return held
    enough = processors if width <= HELD_COLUMNS else WARPS * processors
    if width <= options.warp and rows.count > enough:
        return Layout(False, (32, 8), unroll_for(width, 32, options.items), 1, 0, width)
    threads = 128 if width <= 2048 else options.block
    parts, chunk = parts_of(rows.count, width, 8 * processors, threads * 16)
    return Layout(False, (threads, 1), unroll_for(chunk, threads, options.items), parts, 0, chunk)


def unroll_for(columns: int, threads: int, most: int) -> int:
    """Choose how many vectors of four a thread loads at once."""
    unroll = most
    while unroll > 1 and unroll * threads * 4 > columns:
        unroll //= 2
    return unroll


def parts_of(blocks: int, width: int, wanted: int, least: int) -> tuple[int, int]:
    """Cut rows into parts where there are too few for the GPU; returns how many, and the columns of one."""
    if blocks * 2 > wanted or width < 2 * PART_COLUMNS:
        return 1, width
    parts = min(-(-wanted // blocks), width // PART_COLUMNS)
    chunk = -(-width // parts)
    chunk = -(-chunk // least) * least if chunk > 4 * least else -(-chunk // 64) * 64
    return -(-width // chunk), chunk


def across_layout(rows: Rows, walks: Sequence[Walk], options: CudaOptions, processors: int) -> Layout:
    """Lay lanes over neighbouring rows and lines over columns.

    What is read again is to be in the first-level cache then, so blocks have narrow tiles there.
    """
    width = max(walk.width for walk in walks)
    lanes = 32 if rows.run <= 32 or rows.count < 256 * processors else 64
    vector = 4
    if is_read_again(walks, rows):
        lanes = 32
        vector = max(1, min(vector, TILE_BYTES // (lanes * width * 4)))
        vector = 1 << (vector.bit_length() - 1)
    lines = max(1, min(options.block // lanes, width // 4))
    lines = 1 << (lines.bit_length() - 1)
    tile = lanes * (vector if rows.run % 4 == 0 else 1)
    words = sum(fold.words for walk in walks for fold in walk.folds)
    while lines > 1 and lines * tile * words * 8 > STATES_BYTES:
        lines //= 2
    blocks = rows.count // rows.run * -(-rows.run // tile)
    parts, chunk = 1, width
    if blocks < 4 * processors and width >= 32 * lines:
        parts = min(-(-8 * processors // blocks), width // (16 * lines))
        chunk = -(-width // parts)
        parts = -(-width // chunk)
    unroll = 2 * options.items
    while unroll > 1 and unroll * lines > chunk:
        unroll //= 2
    return Layout(True, (lanes, lines), unroll, parts, 0, chunk, vector)


def is_read_again(walks: Sequence[Walk], rows: Rows) -> bool:
    """Whether more than one walk reads the same elements."""
    read = [access for walk in walks if walk.width > 1 for access in accesses_of(walk, rows)]
    return len(read) > len(set(read))


def held_layout(rows: Rows, walks: Sequence[Walk], options: CudaOptions, processors: int) -> Layout | None:
    """Hold rows in the shared memory of one block or of a team; None where nothing is read twice or it does not fit."""
    homes = shared_homes(walks, rows)
    width = max(walk.width for walk in walks)
    if not homes:
        return None
    item = sum(homes.values())
    budget = SHARED_BYTES // options.held - BLOCK_EXTRA
    slots = options.held * processors
    least = -(-width * item // budget)
    if least > slots // TEAMS:
        return None
    team = min(
        range(least, min(slots // TEAMS, least + least // 2 + 1) + 1) if least > 1 else [1],
        key=lambda size: (-(slots // size * size), size),
    )
    chunk = -(-width // (team * 64)) * 64
    threads = HELD_THREADS[options.held]
    while threads > 256 and threads * 8 > chunk:
        threads = -(-threads // 64) * 32
    blocks = options.held if threads == HELD_THREADS[options.held] else 1
    return Layout(
        False, (threads, 1), unroll_for(chunk, threads, options.items), 1, team, chunk, held=tuple(homes), blocks=blocks
    )
