"""Actions of operators on rows: declarations, forms and pages."""
