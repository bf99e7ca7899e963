"""Trees of components: the nested Chinese restaurant process over rows."""
