"""Row kernels for cuda whose threads lie along a row: a warp, a block, or a team of blocks has one."""

from collections.abc import Sequence

from cuda_agent.llm.builtin.dtypes import ITEM_BYTES, STORED
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.row_layout import accesses_of, home
from cuda_agent.llm.builtin.row_plan import SPACE, RowPlan, numbers_text
from cuda_agent.llm.builtin.row_steps import Place, Steps
from cuda_agent.llm.builtin.row_text import share_of


def along_body(plan: RowPlan, group: Sequence[Steps], functions: set[str]) -> list[str]:
    """Write the body of the kernel that does some of the walks."""
    return _Along(plan, functions).body(group)


def held_bytes(plan: RowPlan) -> list[int]:
    """Return the shared memory of each held piece: a part of a row, and what alignment may cost."""
    items = [ITEM_BYTES[held_access(plan, place)[1].buffer.spec.dtype] for place in plan.layout.held]
    return [-(-(plan.layout.chunk * item + 32) // 16) * 16 for item in items]


def held_access(plan: RowPlan, place: tuple[object, ...]) -> tuple[Steps, Access]:
    """Return an access to a held piece, and the steps that have it."""
    for steps in plan.steps:
        for access in accesses_of(steps.walk, plan.rows):
            if home(steps.walk, access) == place:
                return steps, access
    raise AssertionError("what is held is read")


def pieces_of(plan: RowPlan, group: Sequence[Steps]) -> int:
    """Return how many blocks share a row in the launch of some walks."""
    return plan.layout.parts if any(steps.walk.width > 1 for steps in group) else 1


class _Along:
    def __init__(self, plan: RowPlan, functions: set[str]) -> None:
        self.plan = plan
        self.layout = plan.layout
        self.functions = functions
        self.warp = plan.layout.a_row_a_warp

    def body(self, group: Sequence[Steps]) -> list[str]:
        layout, count = self.layout, self.plan.rows.count
        self.functions |= {"walk", "misaligned", "warp_fold", "block_fold"}
        walks = [line for steps in group for line in self._walk(steps)]
        head = [f"[[maybe_unused]] constexpr int kThreads = {layout.threads[0]};"]
        if layout.team > 1:
            return [
                *head,
                *self._memory(),
                f"const int team = blockIdx.x / {layout.team}, rank = blockIdx.x % {layout.team};",
                "[[maybe_unused]] unsigned turn = 0;",
                f"for (int64_t row = team; row < {count}; row += gridDim.x / {layout.team}) {{",
                *(f"  {line}" for line in [*self._fill(), *walks]),
                "  __syncthreads();",
                "}",
            ]
        pieces = pieces_of(self.plan, group)
        backwards = layout.parts > 1 and group[0] is not self.plan.steps[0]
        block = "static_cast<int64_t>(gridDim.x - 1 - blockIdx.x)" if backwards else "static_cast<int64_t>(blockIdx.x)"
        row = f"{block} * {layout.threads[1]} + threadIdx.y" if self.warp else f"{block} / {pieces}"
        return [
            *head,
            *self._memory(),
            f"[[maybe_unused]] const int64_t row = {row};",
            f"[[maybe_unused]] const int rank = static_cast<int>({block} % {pieces});",
            *([f"const bool active = row < {count};"] if self.warp else []),
            *self._earlier(group),
            *self._fill(),
            *walks,
        ]

    def _earlier(self, group: Sequence[Steps]) -> list[str]:
        """Put together what earlier launches left of the numbers that this one uses."""
        if self.layout.parts == 1:
            return []
        self.functions |= {"slots"}
        own = [fold for steps in group for fold in steps.walk.folds]
        lines: list[str] = []
        for fold in self.plan.used(group[0].walk):
            if fold in own:
                continue
            name, parts = f"state_{fold.name}", self.layout.parts
            lines += [
                f"{fold.state} {name};",
                f"for (int k = threadIdx.x; k < {parts}; k += kThreads)",
                f"  {name}.merge(get<{fold.state}>({SPACE}{fold.name}, row * {parts} + k));",
                f"{name} = block_fold<kThreads>({name});",
                *numbers_text(fold, lanes=False),
            ]
        return lines

    # What is held.

    def _memory(self) -> list[str]:
        if not self.layout.held:
            return []
        lines, at = ["extern __shared__ uint4 memory[];"], 0
        for k, (place, size) in enumerate(zip(self.layout.held, held_bytes(self.plan), strict=True)):
            kind = STORED[held_access(self.plan, place)[1].buffer.spec.dtype]
            lines.append(f"{kind}* const memory_{k} = reinterpret_cast<{kind}*>(memory + {at // 16});")
            at += size
        return lines

    def _fill(self) -> list[str]:
        """Bring the row, or this block's part of it, into shared memory, as it is aligned in memory."""
        if not self.layout.held:
            return []
        self.functions |= {"hold"}
        lines: list[str] = []
        for k, held in enumerate(self.layout.held):
            steps, access = held_access(self.plan, held)
            place = steps.places[access]
            kind = STORED[place.dtype]
            width = 16 // ITEM_BYTES[place.dtype]
            inner = [
                f"using I = {steps.kind};",
                *steps.pointers(only=place),
                *self._part(steps),
                f"const I lead = misaligned<{width}>({place.name} + part_first);",
                f"held_{k} = memory_{k} + lead - part_first;",
                "const auto step = [&](auto unroll, auto vector, const I first_column, const I spacing) {",
                "  constexpr int U = decltype(unroll)::value, V = decltype(vector)::value;",
                "#pragma unroll",
                "  for (int u = 0; u < U; ++u)",
                f"    hold<{kind}, V>(held_{k} + (first_column + u * spacing), "
                f"{place.name} + (first_column + u * spacing));",
                "};",
                f"walk<4, {width}, I>(part_first, part_last, lead, static_cast<I>(threadIdx.x), kThreads, step);",
            ]
            lines += [f"{kind}* held_{k} = nullptr;", "{", *(f"  {line}" for line in inner), "}"]
        return [*lines, "all_held();", "__syncthreads();"]

    # A walk.

    def _walk(self, steps: Steps) -> list[str]:
        inner = [
            *steps.pointers(),
            *self._part(steps),
            *steps.hoisted(),
            *steps.text(),
            *self._walking(steps),
        ]
        states = [f"{fold.state} state_{fold.name};" for fold in steps.walk.folds]
        guard = "if (active) {" if self.warp else "{"
        body = [guard, f"  using I = {steps.kind};", *(f"  {line}" for line in inner), "}"]
        return [*states, *body, *self._together(steps)]

    def _part(self, steps: Steps) -> list[str]:
        """Say which columns this block walks over."""
        width, chunk = steps.walk.width, self.layout.chunk
        if max(self.layout.parts, self.layout.team) <= 1:
            return [f"[[maybe_unused]] constexpr I part_first = 0, part_last = {width};"]
        return share_of(width, chunk)

    def _walking(self, steps: Steps) -> list[str]:
        width = self.plan.width(steps)
        unroll = self.layout.unroll if steps.walk.width > 1 else 1
        thread = "static_cast<I>(threadIdx.x)"
        packs = steps.packs()
        single = f"walk<{unroll}, 1, I>(part_first, part_last, 0, {thread}, kThreads, step);"
        if width == 1 or not packs:
            return [single]
        return [
            f"const I lead = misaligned<{width}>({packs[0].name} + part_first);",
            f"if ({self._condition(steps, packs, width)}) {{",
            f"  walk<{unroll}, {width}, I>(part_first, part_last, lead, {thread}, kThreads, step);",
            "} else {",
            f"  {single}",
            "}",
        ]

    def _condition(self, steps: Steps, packs: Sequence[Place], width: int) -> str:
        """Say when vectors of everything start at the same columns, and where lines are cut, at their start."""
        same = [f"misaligned<{width}>({pack.name} + part_first) == lead" for pack in packs[1:]]
        whole = ["lead == 0"] if len(steps.columns) > 1 else []
        return " && ".join([*whole, *same]) or "true"

    def _together(self, steps: Steps) -> list[str]:
        folds = steps.walk.folds
        fold_threads = "warp_fold<32>" if self.warp else "block_fold<kThreads>"
        lines = [f"state_{fold.name} = {fold_threads}(state_{fold.name});" for fold in folds]
        if self.layout.team > 1 and folds:
            self.functions |= {"team_fold"}
            team = self.layout.team
            slot = f"(static_cast<int64_t>(team) * 2 + turn % 2) * {team}"
            puts = [f"put({SPACE}{fold.name}, {slot} + rank, state_{fold.name});" for fold in folds]
            lines += ["if (threadIdx.x == 0) {", *(f"  {line}" for line in puts), "}"]
            lines.append(f"team_meet({self.plan.meetings} + team * 16, (turn + 1) * {team});")
            lines += [f"state_{f.name} = team_fold<{team}, {f.state}>({SPACE}{f.name}, {slot});" for f in folds]
            lines.append("++turn;")
        if self.layout.parts > 1:
            self.functions |= {"slots"}
            slot = f"row * {self.layout.parts} + rank"
            lines += [f"if (threadIdx.x == 0) put({SPACE}{f.name}, {slot}, state_{f.name});" for f in folds]
            return lines
        return [*lines, *(line for fold in folds for line in numbers_text(fold, lanes=False))]
