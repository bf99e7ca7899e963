"""Control flow of inference over batches, and the kernels it calls."""
