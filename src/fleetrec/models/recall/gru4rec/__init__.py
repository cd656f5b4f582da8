"""GRU4Rec."""
