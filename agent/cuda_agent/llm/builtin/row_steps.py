"""The innermost piece of a row kernel for cuda: load a few vectors, compute, take into states or store.

A step is a lambda over `U` vectors of `V` elements each. Along a row the vectors are `spacing` columns apart; across
rows they are those of `U` columns, and each of the `V` lanes has states of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.dtypes import COMPUTED, ITEM_BYTES, STORED
from cuda_agent.llm.builtin.emit import Emitted, emit
from cuda_agent.llm.builtin.expr import Index, Load, Position, depth_first
from cuda_agent.llm.builtin.folds import Walk
from cuda_agent.llm.builtin.loop_text import step_text, stored
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.row_layout import Layout, Reach, accesses_of, home, reach
from cuda_agent.llm.builtin.row_text import split_text
from cuda_agent.llm.builtin.rows import Rows

MAX_32_BIT = 2**31 - 1
SLACK = 1 << 24
"""What a counter may run past the last column."""


@dataclass(frozen=True)
class Place:
    """Something that a walk reads or writes: its pointer for the row, and how neighbours lie."""

    name: str
    index: Index
    dtype: str
    reach: Reach


class Steps:
    """Writes the steps of one walk."""

    def __init__(self, number: int, walk: Walk, rows: Rows, layout: Layout) -> None:
        self.number = number
        self.walk = walk
        self.rows = rows
        self.layout = layout
        self.count = len(walk.rows)
        self.lane = self.count - 1 if layout.across else len(walk.sizes) - 1
        self.outer_rows = tuple(range(self.count - 1 if layout.across else self.count))
        self.columns = tuple(range(self.count, len(walk.sizes)))
        self.accesses = accesses_of(walk, rows)
        self.places = {
            access: self._place(access.name, access.index, access.buffer.spec.dtype) for access in self.accesses
        }
        self.written = [(w, self._place(f"to_{k}", w.place, w.buffer.spec.dtype)) for k, w in enumerate(walk.writes)]
        self.kind = self._kind()

    def _place(self, name: str, index: Index, dtype: str) -> Place:
        return Place(f"{name}_{self.number}", index, dtype, reach(index, self.count, self.lane))

    def _kind(self) -> str:
        """Choose the integer of columns and of what lies within a row."""
        spans = [self.walk.width + SLACK]
        for place in self.all_places():
            sizes = enumerate(self.walk.sizes)
            spans.append(sum(abs(place.index.strides[k]) * size for k, size in sizes if k not in self.outer_rows))
        for node in depth_first(self.walk.exprs):
            if isinstance(node, Position):
                steps = zip(node.index.strides, self.walk.sizes, strict=True)
                spans.append(abs(node.index.offset) + sum(abs(step) * size for step, size in steps))
        return "int32_t" if max(spans) <= MAX_32_BIT else "int64_t"

    def all_places(self) -> list[Place]:
        """Everything in memory that it touches."""
        return [*self.places.values(), *(place for _, place in self.written)]

    def packs(self) -> list[Place]:
        """What is read or written in vectors."""
        across = self.layout.across
        return [p for p in self.all_places() if p.reach == "pack" or (across and p.index.strides[self.lane] == 1)]

    def width(self) -> int:
        """Choose how many elements go into a vector."""
        items = [ITEM_BYTES[place.dtype] for place in self.packs()]
        if not items:
            return 1
        width = 16 // max(items)
        while width > 1 and not self._divides(width):
            width //= 2
        return width

    def _divides(self, width: int) -> bool:
        """Whether vectors of this width never leave a line, and start where they may."""
        sizes = self.walk.sizes
        across = self.layout.across
        fixed = across or len(self.columns) > 1
        if fixed and sizes[self.lane] % width:
            return False
        for place in self.packs():
            others = [place.index.offset] if across else []
            others += [s for k, s in enumerate(place.index.strides) if k != self.lane and (across or k in self.columns)]
            if any(step % width for step in others):
                return False
        return True

    def pack_buffers(self) -> list[str]:
        """Return the names of the buffers that are read or written in vectors."""
        packs = self.packs()
        read = [access.buffer.name for access, place in self.places.items() if place in packs]
        return read + [write.buffer.name for write, place in self.written if place in packs]

    def pointers(self, only: Place | None = None) -> list[str]:
        """Say which elements the row's pointers start at."""
        lines = split_text(self.outer_rows, self.walk.sizes, "row", "int64_t")
        for access, place in self.places.items():
            if only in (None, place):
                lines.append(self._pointer(place, access.buffer.name, "const "))
        for write, place in self.written if only is None else ():
            lines.append(self._pointer(place, write.buffer.name, ""))
        return lines

    def _pointer(self, place: Place, buffer: str, const: str) -> str:
        terms = [str(place.index.offset)] if place.index.offset else []
        strides = place.index.strides
        terms += [step_text(f"d{k}", strides[k]) for k in self.outer_rows if strides[k]]
        if self.layout.across and strides[self.lane]:
            terms.append(step_text("static_cast<int64_t>(begin)", strides[self.lane]))
        at = " + ".join(terms) or "0"
        return f"{const}{STORED[place.dtype]}* const {place.name} = {buffer} + ({at});"

    def hoisted(self) -> list[str]:
        """Read what is the same for the whole row, where the row exists."""
        lines = []
        for place in self.places.values():
            if place.reach == "row":
                kind = STORED[place.dtype]
                if self.layout.across and place.index.strides[self.lane] == 1:
                    lines.append(
                        f"const auto row_{place.name} = *reinterpret_cast<const Pack<{kind}, V>*>({place.name});"
                    )
                elif not self.layout.across or place.index.strides[self.lane] == 0:
                    lines.append(f"const {kind} row_{place.name} = *{place.name};")
        return lines

    def text(self) -> list[str]:
        """Write the lambda."""
        emitted = self._emitted()
        across = self.layout.across
        lambda_args = (
            "auto unroll, const I first_column"
            if across
            else "auto unroll, auto vector, const I first_column, const I spacing"
        )
        sizes = "constexpr int U = decltype(unroll)::value;"
        if not across:
            sizes = "constexpr int U = decltype(unroll)::value, V = decltype(vector)::value;"
        spacing = str(self.layout.threads[1]) if across else "spacing"
        column = [f"[[maybe_unused]] const I c = first_column + u * {spacing};", *self._splits()]
        return [
            f"const auto step = [&]({lambda_args}) {{",
            f"  {sizes}",
            *(f"  {line}" for line in self._declared()),
            "#pragma unroll",
            "  for (int u = 0; u < U; ++u) {",
            *(f"    {line}" for line in [*column, *self._loads()]),
            "  }",
            "#pragma unroll",
            "  for (int u = 0; u < U; ++u) {",
            *(f"    {line}" for line in [*column, *self._packs_out()]),
            "#pragma unroll",
            "    for (int v = 0; v < V; ++v) {",
            *(f"      {line}" for line in [*emitted.statements, *self._results(emitted.results)]),
            "    }",
            *(f"    {line}" for line in self._stores()),
            "  }",
            *(f"  {line}" for line in self._takes()),
            "};",
        ]

    def _splits(self) -> list[str]:
        return split_text(self.columns, self.walk.sizes, "c", "I")

    def _within(self, place: Place) -> str:
        """Say where a vector starts behind the row's pointer."""
        strides = place.index.strides
        return " + ".join(step_text(f"d{k}", strides[k]) for k in self.columns if strides[k]) or "0"

    def _declared(self) -> list[str]:
        lines = []
        for place in self.places.values():
            kind = STORED[place.dtype]
            if place.reach == "pack":
                lines.append(f"Pack<{kind}, V> pack_{place.name}[U];")
            elif place.reach == "one":
                lines.append(f"{kind} one_{place.name}[U];")
        for k, fold in enumerate(self.walk.folds):
            for n, expr in enumerate(fold.exprs):
                shape = "[V][U]" if self.layout.across else "[U * V]"
                lines.append(f"{COMPUTED[expr.dtype]} taken_{k}_{n}{shape};")
        return lines

    def is_held(self, access: Access) -> bool:
        """Whether an access is read from shared memory."""
        return bool(self.layout.held) and home(self.walk, access) in self.layout.held

    def held_name(self, access: Access) -> str:
        """Return the name of the shared memory that holds an access."""
        return f"held_{self.layout.held.index(home(self.walk, access) or ())}"

    def _loads(self) -> list[str]:
        lines = []
        for access, place in self.places.items():
            kind, at = STORED[place.dtype], f"{place.name} + ({self._within(place)})"
            if place.reach == "pack":
                if self.is_held(access):
                    at = f"{self.held_name(access)} + c"
                lines.append(f"pack_{place.name}[u] = *reinterpret_cast<const Pack<{kind}, V>*>({at});")
            elif place.reach == "one":
                lines.append(f"one_{place.name}[u] = *({at});")
        return lines

    def _packs_out(self) -> list[str]:
        return [
            f"Pack<{STORED[place.dtype]}, V> pack_{place.name};" for _, place in self.written if self._in_vectors(place)
        ]

    def _in_vectors(self, place: Place) -> bool:
        return place.index.strides[self.lane] == 1

    def _emitted(self) -> Emitted:
        numbers = self.rows.numbers

        def load(node: Load) -> str:
            if node.source in numbers:
                return f"number_{node.source}" + ("[v]" if self.layout.across else "")
            return self._element(self.places[self.rows.access(node)])

        def position(index: Index) -> str:
            terms = [str(index.offset)] if index.offset else []
            terms += [step_text(self._dim(k), step) for k, step in enumerate(index.strides) if step]
            return f"static_cast<int64_t>({' + '.join(terms) or '0'})"

        return emit(self.walk.exprs, load, position)

    def _dim(self, k: int) -> str:
        if self.layout.across and k == self.lane:
            return "static_cast<I>(begin + v)"
        name = f"static_cast<I>(d{k})" if k in self.outer_rows else f"d{k}"
        return f"({name} + v)" if k == self.lane else name

    def _element(self, place: Place) -> str:
        stride = place.index.strides[self.lane]
        if place.reach == "pack":
            return f"pack_{place.name}[u].item[v]"
        if place.reach == "one":
            return f"one_{place.name}[u]"
        if place.reach == "row" and (not self.layout.across or stride == 0):
            return f"row_{place.name}"
        if place.reach == "row" and stride == 1:
            return f"row_{place.name}.item[v]"
        return f"{place.name}[{self._within(place)} + v * {stride}]"

    def functions(self) -> set[str]:
        """Return the functions that it calls."""
        return self._emitted().functions | {fold.function for fold in self.walk.folds}

    def _results(self, results: Sequence[str]) -> list[str]:
        lines, rest = [], list(results)
        for k, fold in enumerate(self.walk.folds):
            for n in range(len(fold.exprs)):
                at = "[v][u]" if self.layout.across else "[u * V + v]"
                lines.append(f"taken_{k}_{n}{at} = {rest.pop(0)};")
        for (write, place), result in zip(self.written, rest, strict=True):
            value = stored(write.buffer.spec.dtype, result)
            if self._in_vectors(place):
                lines.append(f"pack_{place.name}.item[v] = {value};")
            else:
                lines.append(f"{place.name}[{self._within(place)} + v * {place.index.strides[self.lane]}] = {value};")
        return lines

    def _stores(self) -> list[str]:
        return [
            f"store<kStreaming>({place.name} + ({self._within(place)}), pack_{place.name});"
            for _, place in self.written
            if self._in_vectors(place)
        ]

    def _takes(self) -> list[str]:
        lines = []
        for k, fold in enumerate(self.walk.folds):
            values = [f"taken_{k}_{n}" for n in range(len(fold.exprs))]
            if self.layout.across:
                taken = ", ".join(f"{value}[v]" for value in values)
                lines += ["#pragma unroll", f"for (int v = 0; v < V; ++v) state_{fold.name}[v].take({taken});"]
            else:
                lines.append(f"state_{fold.name}.take({', '.join(values)});")
        return lines
