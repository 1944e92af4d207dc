"""A directory for what lives as long as a run: the judge's session, the sandbox's home and temporary files."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch() -> Iterator[Path]:
    """Make it and remove it at the end; its plain name keeps odd characters of the run's path out of build commands."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-agent-"))
    folder.chmod(0o711)  # the judge may run a submission under another uid, which must reach its files
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
