"""Where the model's commands run: `local` (a process tree of this machine), its Python and its target."""
