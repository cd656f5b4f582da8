"""Names of the towers that retrieval compares."""

USER = "user"
ITEM = "item"
