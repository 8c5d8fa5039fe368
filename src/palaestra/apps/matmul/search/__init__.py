"""Search on the flip graph: walks, the ladder of formats, lifting to the integers, fewer additions."""
