"""The suite of cheats and honest submissions: each written once, judged on `cpu` and on `cuda`."""
