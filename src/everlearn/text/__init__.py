"""From texts to tokens, vocabularies and documents."""
