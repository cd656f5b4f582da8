"""word2vec."""
