"""What may reach a person's terminal: a model, a compiler and a submission have a say in most of what is shown."""

_MARKS = {"completed": "x", "in_progress": ">"}


def plain(text: str, *, keep: str = "\n\t") -> str:
    """Return the text with a space for whatever a terminal would obey (escape sequences, changes of direction)."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def box(status: object) -> str:
    """Return the box before a step of a plan: [x] done, [>] at work, [ ] to come."""
    return f"[{_MARKS.get(str(status), ' ')}]"
