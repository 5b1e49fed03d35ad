"""Files of the repository that are generated from declarations in the code."""
