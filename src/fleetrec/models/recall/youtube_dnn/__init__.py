"""YouTube DNN."""
