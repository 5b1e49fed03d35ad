"""The lists: base classes of the pages, filters and the search over all lists."""
