"""Lists: base classes of the pages, filters and the global search."""
