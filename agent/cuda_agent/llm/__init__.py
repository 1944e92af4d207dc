"""Models: whatever answers a list of messages with text and tool calls."""
