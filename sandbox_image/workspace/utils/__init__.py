"""The workspace's commands; each asks the judge, which stands outside the workspace."""
