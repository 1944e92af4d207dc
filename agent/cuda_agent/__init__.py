"""The host side: everything that runs outside the sandbox."""

__version__ = "0.1.0"
