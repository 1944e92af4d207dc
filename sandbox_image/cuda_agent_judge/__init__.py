"""The judge: decides whether a submission is right and how fast it is. Standard library and torch only."""
