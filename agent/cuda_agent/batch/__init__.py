"""Many operators at once: each is an ordinary run in a process and a folder of its own."""
