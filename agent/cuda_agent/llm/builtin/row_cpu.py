"""A row kernel as C++ with OpenMP.

Sums run in blocks: a block in the elements' own arithmetic, many lanes at once, the blocks together in double. That is
as fast as one long sum and as exact as a pairwise one. Few long rows are split between the threads: each sums its part,
the parts are put together in a fixed order.
"""

from collections.abc import Callable, Iterable

from cuda_agent.llm.builtin.cpu_options import PARALLEL_FROM, CpuOptions
from cuda_agent.llm.builtin.dtypes import COMPUTED, ITEM_BYTES, STORED
from cuda_agent.llm.builtin.emit import Emitted
from cuda_agent.llm.builtin.keep import with_kept
from cuda_agent.llm.builtin.loop_text import stored
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.row_text import (
    Loops,
    arguments,
    combined,
    emit_pass,
    fold,
    identity,
    loops_of,
    needed_functions,
    parameters,
    place_text,
    reset,
    split_text,
    strip,
    total_type,
    used_numbers,
)
from cuda_agent.llm.builtin.rows import Pass, Rows, Sum, Write

SPLIT_FROM = 65536
"""Elements below which splitting a row between threads costs more than it saves."""
CHUNKS = 64
"""Parts of a split row; more than cores, so that a slow core does not hold up the rest."""
DEPTH = 256
"""Columns that one block of a sum across rows adds up."""


class RowSource:
    """Writes one kernel."""

    def __init__(self, name: str, rows: Rows, options: CpuOptions, functions: set[str]) -> None:
        self.name = name
        self.rows = rows
        self.options = options
        self.functions = functions
        self.lanes = min(options.lanes, rows.run) if rows.across else 1
        self.blocks = rows.count // rows.run * -(-rows.run // self.lanes)
        self.split = options.split and self.blocks < 4 * options.cores and rows.total >= SPLIT_FROM
        if options.keep and not self.split:
            self.rows = with_kept(rows)

    def text(self) -> str:
        """Return the passes and the launcher."""
        if self.rows.total == 0:
            return f'extern "C" void {self.name}({", ".join(parameters(self.rows))}) {{}}\n'
        self.functions |= needed_functions(self.rows)
        lines = [line for k, one in enumerate(self.rows.passes) for line in self._pass(k, one)]
        launch = self._launch_split() if self.split else self._launch_blocks()
        lines += [f'extern "C" void {self.name}({", ".join(parameters(self.rows))}) {{', *indented(launch), "}", ""]
        return "\n".join(lines)

    def part(self) -> str:
        """Return the passes and the function NAME(from, to, buffers), which does some of the rows by one thread."""
        self.functions |= needed_functions(self.rows)
        lines = [line for k, one in enumerate(self.rows.passes) for line in self._pass(k, one)]
        params = ["int64_t from", "int64_t to", *parameters(self.rows)]
        lines += [f"static void {self.name}({', '.join(params)}) {{", *indented(self._blocks("from", "to")), "}", ""]
        return "\n".join(lines)

    def units(self, one: Pass) -> int:
        """Return how many blocks a walk over the columns has."""
        loops = loops_of(one, self.rows.across)
        if self.rows.across:
            return -(-loops.walk_count // DEPTH)
        return loops.walk_count * -(-loops.sizes[loops.inner] // self.options.block)

    def _pass(self, number: int, one: Pass) -> list[str]:
        loops = loops_of(one, self.rows.across)
        params = ["int64_t task", "int64_t from", "int64_t to", *parameters(self.rows)]
        params += [f"{STORED[b.spec.dtype]}* {b.name}" for b in self.rows.kept]
        params += [f"const {COMPUTED[n.dtype]}* s_{n.name}" for n in used_numbers(one, self.rows)]
        params += [f"{total_type(n)}* __restrict__ t_{n.name}" for n in one.sums]
        body = self._across(one, loops) if self.rows.across else self._along(one, loops)
        return [
            f"[[gnu::noinline]] static void {self.name}_pass{number}({', '.join(params)}) {{",
            *indented(body),
            "}",
            "",
        ]

    def _along(self, one: Pass, loops: Loops) -> list[str]:
        emitted = self._emit(one, loops, lambda name: f"number_{name}")
        inner = loops.sizes[loops.inner]
        staged = [w for w in one.writes if self._streams(w, w.place.strides[loops.inner])]
        return [
            *split_text(loops.row, loops.sizes, "task"),
            *(
                f"const {COMPUTED[n.dtype]} number_{n.name} = s_{n.name}[0];"
                for n in used_numbers(one, self.rows)
            ),
            *(f"alignas(64) {STORED[w.buffer.spec.dtype]} staged_{w.buffer.name}[kBlock];" for w in staged),
            f"constexpr int64_t kInner = {inner}, kParts = (kInner + kBlock - 1) / kBlock;",
            *self._partials(one, loops),
            "for (int64_t unit = from; unit < to; ++unit) {",
            "  const int64_t begin = unit % kParts * kBlock;",
            "  const int64_t count = begin + kBlock < kInner ? kBlock : kInner - begin;",
            *(["  const int64_t walk = unit / kParts;"] if loops.walk else []),
            *indented(split_text(loops.walk, loops.sizes, "walk")),
            *indented(self._pointers(one, loops, "begin", {w.buffer.name for w in staged})),
            *indented(self._inner_loop(one, loops, emitted)),
            *(
                f"  stream_copy({w.buffer.name} + ({place_text(w.place, loops, 'begin')}), staged_{w.buffer.name}, "
                f"count * {ITEM_BYTES[w.buffer.spec.dtype]}u);"
                for w in staged
            ),
            "}",
            *(["stream_fence();"] if staged else []),
        ]  # fmt: skip

    def _across(self, one: Pass, loops: Loops) -> list[str]:
        emitted = self._emit(one, loops, lambda name: f"s_{name}[column]")
        count = loops.walk_count
        sums = [f"b_{n.name}[column] = {combined(n, f'b_{n.name}[column]', result)};"
                for n, result in zip(one.sums, emitted.results, strict=False)]  # fmt: skip
        simd = ["#pragma omp simd"] if self.options.simd else []
        return [
            f"constexpr int64_t kRun = {loops.sizes[loops.inner]}, kSteps = (kRun + kLanes - 1) / kLanes;",
            "const int64_t begin = task % kSteps * kLanes;",
            "const int64_t count = begin + kLanes < kRun ? kLanes : kRun - begin;",
            *(["const int64_t row = task / kSteps;"] if loops.row else []),
            *split_text(loops.row, loops.sizes, "row"),
            "for (int64_t unit = from; unit < to; ++unit) {",
            f"  const int64_t first = unit * {DEPTH}, last = first + {DEPTH} < {count} ? first + {DEPTH} : {count};",
            *(f"  alignas(64) {COMPUTED[n.dtype]} b_{n.name}[kLanes];" for n in one.sums),
            *(f"  for (int64_t column = 0; column < count; ++column) b_{n.name}[column] = {identity(n)};"
              for n in one.sums),
            "  for (int64_t walk = first; walk < last; ++walk) {",
            *indented(split_text(loops.walk, loops.sizes, "walk"), 2),
            *indented(self._pointers(one, loops, "begin", set()), 2),
            *indented(simd, 2),
            "    for (int64_t column = 0; column < count; ++column) {",
            *indented(emitted.statements, 3),
            *indented([*sums, *self._stores(one, loops, emitted)], 3),
            "    }",
            "  }",
            *(f"  for (int64_t column = 0; column < count; ++column) t_{n.name}[column] = "
              f"{combined(n, f't_{n.name}[column]', f'static_cast<{total_type(n)}>(b_{n.name}[column])')};"
              for n in one.sums),
            "}",
        ]  # fmt: skip

    def _emit(self, one: Pass, loops: Loops, number: Callable[[str], str]) -> Emitted:
        def memory(access: Access) -> str:
            step = access.index.strides[loops.inner]
            return f"{access.name}[{'0' if step == 0 else 'column' if step == 1 else f'column * {step}'}]"

        emitted = emit_pass(one, self.rows, loops, memory, number, "begin", "column")
        self.functions |= emitted.functions
        return emitted

    def _streams(self, write: Write, step: int) -> bool:
        return (
            write.buffer not in self.rows.kept
            and self.options.stream
            and self.options.simd
            and step == 1
            and not self.rows.across
        )

    def _pointers(self, one: Pass, loops: Loops, begin: str, staged: set[str]) -> list[str]:
        numbers = self.rows.numbers
        read = dict.fromkeys(self.rows.access(node) for node in one.loads() if node.source not in numbers)
        lines = [f"const {STORED[a.buffer.spec.dtype]}* {a.name} = {a.buffer.name} + "
                 f"({place_text(a.index, loops, begin)});" for a in read]  # fmt: skip
        for w in one.writes:
            name = w.buffer.name
            place = f"staged_{name}" if name in staged else f"{name} + ({place_text(w.place, loops, begin)})"
            alone = "" if any(node.source == name for node in one.loads()) else "__restrict__ "
            lines.append(f"{STORED[w.buffer.spec.dtype]}* {alone}to_{name} = {place};")
        return lines

    def _inner_loop(self, one: Pass, loops: Loops, emitted: Emitted) -> list[str]:
        """Walk over a block: without sums in one loop, with them in strips of as many partial sums as lanes."""
        simd = ["#pragma omp simd"] if self.options.simd else []
        body = [*emitted.statements, *self._stores(one, loops, emitted)]
        if not one.sums:
            return [*simd, "for (int64_t column = 0; column < count; ++column) {", *indented(body), "}"]
        lanes = strip(loops.sizes[loops.inner], self.options.lanes)
        body += [f"b_{n.name}[column - strip] = {combined(n, f'b_{n.name}[column - strip]', result)};"
                 for n, result in zip(one.sums, emitted.results, strict=False)]  # fmt: skip
        often = max(1, self.options.block // loops.sizes[loops.inner])
        folds = [line for n in one.sums for line in (*fold(n, lanes), reset(n))]
        if often > 1:
            folds = [f"if ((unit + 1) % {often} == 0 || unit + 1 == to) {{", *indented(folds), "}"]
        return [
            f"for (int64_t strip = 0; strip < count; strip += {lanes}) {{",
            f"  const int64_t end = strip + {lanes} < count ? strip + {lanes} : count;",
            *indented(simd),
            "  for (int64_t column = strip; column < end; ++column) {",
            *indented(body, 2),
            "  }",
            "}",
            *folds,
        ]

    def _partials(self, one: Pass, loops: Loops) -> list[str]:
        lanes = strip(loops.sizes[loops.inner], self.options.lanes)
        declared = [f"alignas(64) {COMPUTED[n.dtype]} b_{n.name}[{lanes}];" for n in one.sums]
        return [*declared, *(reset(n) for n in one.sums)]

    def _stores(self, one: Pass, loops: Loops, emitted: Emitted) -> list[str]:
        lines = []
        for w, result in zip(one.writes, emitted.results[len(one.sums) :], strict=True):
            step = w.place.strides[loops.inner]
            if w.buffer.spec.dtype in ("float16", "bfloat16"):
                self.functions.add("memory")
            lines.append(f"to_{w.buffer.name}[{'column' if step == 1 else f'column * {step}'}] = "
                         f"{stored(w.buffer.spec.dtype, result)};")  # fmt: skip
        return lines

    def _call(self, number: int, one: Pass, first: str, last: str, at: str) -> str:
        given = [b.name for b in self.rows.kept]
        given += [f"s_{n.name}{at}" for n in used_numbers(one, self.rows)] + [f"t_{n.name}" for n in one.sums]
        return f"{self.name}_pass{number}({', '.join(['task', first, last, *arguments(self.rows), *given])});"

    def _launch_blocks(self) -> list[str]:
        parallel = f"#pragma omp parallel for schedule(static) if ({self.rows.total} > {PARALLEL_FROM})"
        return [parallel, *self._blocks("0", str(self.blocks))]

    def _blocks(self, first: str, last: str) -> list[str]:
        lines = [f"for (int64_t task = {first}; task < {last}; ++task) {{"]
        lines += [f"  alignas(64) {STORED[b.spec.dtype]} {b.name}[{b.spec.numel}];" for b in self.rows.kept]
        for k, one in enumerate(self.rows.passes):
            lines += [f"  {total_type(n)} t_{n.name}[{self.lanes}];" for n in one.sums]
            lines += [f"  for (auto& total : t_{n.name}) total = {identity(n)};" for n in one.sums]
            lines.append("  " + self._call(k, one, "0", str(self.units(one)), ""))
            for n in one.sums:
                kind = COMPUTED[n.dtype]
                lines += [f"  {kind} s_{n.name}[{self.lanes}];",
                          f"  for (int lane = 0; lane < {self.lanes}; ++lane) "
                          f"s_{n.name}[lane] = static_cast<{kind}>(t_{n.name}[lane]);"]  # fmt: skip
        return [*lines, "}"]

    def _launch_split(self) -> list[str]:
        lines: list[str] = []
        for k, one in enumerate(self.rows.passes):
            units = self.units(one)
            chunks = min(CHUNKS, units)
            lines += [f"std::unique_ptr<{total_type(n)}[]> all_{n.name}(new {total_type(n)}"
                      f"[{self.blocks * chunks * self.lanes}]);" for n in one.sums]  # fmt: skip
            lines += [
                "#pragma omp parallel for schedule(static)",
                f"for (int64_t job = 0; job < {self.blocks * chunks}; ++job) {{",
                f"  const int64_t task = job / {chunks}, chunk = job % {chunks};",
                *(f"  {total_type(n)}* t_{n.name} = all_{n.name}.get() + job * {self.lanes};" for n in one.sums),
                *(f"  for (int lane = 0; lane < {self.lanes}; ++lane) t_{n.name}[lane] = {identity(n)};"
                  for n in one.sums),
                "  " + self._call(k, one, f"chunk * {units} / {chunks}", f"(chunk + 1) * {units} / {chunks}",
                                  f".get() + task * {self.lanes}"),
                "}",
            ]  # fmt: skip
            lines += [line for n in one.sums for line in self._put_together(n, chunks)]
        return lines

    def _put_together(self, n: Sum, chunks: int) -> list[str]:
        kind, total = COMPUTED[n.dtype], total_type(n)
        return [
            f"std::unique_ptr<{kind}[]> s_{n.name}(new {kind}[{self.blocks * self.lanes}]);",
            f"for (int64_t task = 0; task < {self.blocks}; ++task)",
            f"  for (int64_t lane = 0; lane < {self.lanes}; ++lane) {{",
            f"    const {total}* part = all_{n.name}.get() + task * {chunks * self.lanes} + lane;",
            f"    {total} sum = part[0];",
            f"    for (int chunk = 1; chunk < {chunks}; ++chunk) "
            f"sum = {combined(n, 'sum', f'part[chunk * {self.lanes}]')};",
            f"    s_{n.name}[task * {self.lanes} + lane] = static_cast<{kind}>(sum);",
            "  }",
        ]  # fmt: skip


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indent lines, pragmas included."""
    return [f"{'  ' * depth}{line}" for line in lines]
