"""What all estimators share: parameters, tables, labels, saving and merging."""
