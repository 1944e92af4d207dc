"""What a run needs of this machine, checked one by one; each problem comes with the command that mends it."""
