"""Learning from files and pipes: what the commands of the tool are made of."""
