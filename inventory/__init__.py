"""Stock pools and the catalogue of GPU specs."""
