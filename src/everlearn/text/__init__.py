"""From texts to tokens, vocabularies and documents.

What estimators of documents get as X takes this way:

1. `inputs.documents_of` is where an estimator hands over X.
2. `tokens.document_form` finds out what X holds: counts, word numbers, tokens or texts.
3. `tokens.tokenize` splits texts into tokens. Here a text becomes words.
4. `vocabulary.Vocabulary.encode` gives each word its column, and adds new words.
"""
