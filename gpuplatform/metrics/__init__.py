"""The declared metrics, their recording in processes that fork, and the metrics port."""
