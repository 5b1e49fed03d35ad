"""Every metric, declared once; counting in processes that fork; the metrics port."""
