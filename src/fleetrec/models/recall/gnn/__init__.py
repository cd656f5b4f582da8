"""SR-GNN."""
