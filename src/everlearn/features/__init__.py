"""From raw things to what models count: words of a growing vocabulary, points of images."""
