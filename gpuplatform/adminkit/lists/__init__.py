"""The lists: filters, pages, search and the base of read-only pages."""
