"""Methods that only a paper's tables need, as their authors print them."""
