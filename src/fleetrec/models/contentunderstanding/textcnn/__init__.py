"""TextCNN."""
