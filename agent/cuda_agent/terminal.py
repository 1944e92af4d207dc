"""What may reach a person's terminal: a model, a compiler and a submission have a say in most of what is shown."""


def plain(text: str, *, keep: str = "\n\t") -> str:
    """Return the text with a space for whatever a terminal would obey (escape sequences, changes of direction)."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)
