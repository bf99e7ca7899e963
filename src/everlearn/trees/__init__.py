"""Topic trees: the nested Chinese restaurant process over documents."""
